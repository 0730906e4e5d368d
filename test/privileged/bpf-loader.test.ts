import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type BpfObject, loadBpfObject, readBtfLayout } from "../../src/bpf/index.ts";
import { bpfSkipReason } from "../support/bpf-skip-reason.ts";
import { compileBpf } from "../support/compile-bpf.ts";
import { isLoaded, programsOf } from "../support/traffic-watch.ts";
import { waitFor } from "../support/wait-for.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-loader-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** Counts getppid() calls of one process: per key, per CPU, and as records of varying size. */
const source = `
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static s64 (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static s64 (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static u64 (*const get_cookie)(void *context) = (void *)174;
struct pair { u32 number; u16 low; u8 bytes[2]; };
struct entry { u64 count; struct pair pair; };
const volatile u32 watched_pid = 0;
const volatile u64 step = 1;
const volatile u8 is_on = 0;
const volatile u8 tag[4] = {};
struct { MAP_NUMBER(type, BPF_MAP_TYPE_HASH); MAP_NUMBER(max_entries, 16); MAP_TYPE(key, u32); MAP_TYPE(value, struct entry); } entries SEC(".maps");
struct { MAP_NUMBER(type, 6); MAP_NUMBER(max_entries, 1); MAP_TYPE(key, u32); MAP_TYPE(value, u32); } percpu SEC(".maps");
struct { MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF); MAP_NUMBER(max_entries, 4096); } records SEC(".maps");
u64 runs;
SEC("raw_tracepoint/sys_enter") int on_syscall(u64 *context)
{
	u32 zero = 0, *value;
	struct entry record = {};
	if (!is_on || bpf_get_current_pid_tgid() >> 32 != watched_pid || context[1] != 110) return 0;
	runs += step;
	value = map_lookup(&percpu, &zero);
	if (value) *value += 1;
	record.count = runs;
	record.pair.number = 7;
	record.pair.bytes[1] = tag[3];
	ringbuf_output(&records, &record, runs & 1 ? 16 : 9, BPF_RB_NO_WAKEUP);
	return 0;
}
SEC("uprobe") int on_function(void *context)
{
	u32 key = bpf_get_current_pid_tgid() >> 32;
	struct entry entry = { .count = get_cookie(context) };
	map_update(&entries, &key, &entry, 0);
	return 0;
}
struct question { u64 number; u64 answer; };
SEC("syscall") int on_demand(struct question *question) { question->answer = question->number * 2; return step + 40; }
SEC("syscall") int on_tell(struct question *question) { struct question copy = *question; return ringbuf_output(&records, &copy, 16, copy.number); }
SEC("tp_btf/no_such_tracepoint") int on_missing(u64 *context) { return context[0] == 1; }
SEC("tp_btf/sched_switch") int on_switch(u64 *context) { return context[0] == 1; }
SEC("raw_tracepoint/no_such_tracepoint") int on_nothing(void *context) { (void)context; return 0; }
`;

/** A process that calls getppid() once per input line and echoes the line. */
const caller =
  'process.stdin.on("data", (data) => { for (const _ of String(data).trim().split("\\n")) process.ppid; process.stdout.write("x"); });';

describe("loadBpfObject()", () => {
  let path = "";
  beforeAll(() => {
    if (bpfSkipReason("clang", "bpftool") === undefined) path = compileBpf(directory, "loader", source);
  });
  beforeEach((context) => {
    const reason = bpfSkipReason("clang", "bpftool");
    context.skip(reason !== undefined, reason);
  });

  const load = (more: Partial<Parameters<typeof loadBpfObject>[0]> = {}): Promise<BpfObject> =>
    loadBpfObject({ path, isWanted: (name) => name !== "on_nothing", isOptional: () => true, ...more });

  it("counts, writes records and reads them back, with constants and sizes set before loading", async () => {
    const child = spawn(process.execPath, ["-e", caller], { stdio: ["pipe", "pipe", "inherit"] });
    try {
      await using object = await load({
        constants: { watched_pid: child.pid ?? 0, step: 3n, is_on: true, tag: Buffer.from([0, 0, 0, 99]) },
        maxEntries: { records: 8192 },
      });
      expect(object.map("records").maxEntries).toBe(8192);
      object.attach("on_syscall");
      const ring = object.ring("records");
      const seen: [count: bigint, length: number, tag: number][] = [];
      await waitFor("40 records", () => {
        child.stdin.write("\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n");
        ring.drain((view, offset, length) =>
          seen.push([view.getBigUint64(offset, true), length, length > 15 ? view.getUint8(offset + 15) : -1]),
        );
        return seen.length >= 40;
      });
      expect(seen.slice(0, 3)).toEqual([
        [3n, 16, 99],
        [6n, 9, -1],
        [9n, 16, 99],
      ]);
      expect(seen.map(([count]) => count)).toEqual(seen.map((_, index) => BigInt(index + 1) * 3n));
      const percpu = object.map("percpu");
      const values = Buffer.alloc(percpu.valueBytes);
      expect(percpu.lookup(Buffer.alloc(4), values)).toBe(true);
      let total = 0;
      for (let at = 0; at < values.length; at += 8) total += values.readUInt32LE(at);
      expect(total).toBeGreaterThanOrEqual(seen.length);
    } finally {
      child.kill("SIGKILL");
    }
  });

  it("reads, updates and refuses map entries", async () => {
    await using object = await load();
    const map = object.map("entries");
    const key = Buffer.alloc(4);
    const value = Buffer.alloc(map.valueBytes);
    for (let index = 0; index < 16; index++) {
      key.writeUInt32LE(index);
      value.writeBigUInt64LE(BigInt(index) * 3n);
      map.update(key, value);
    }
    key.writeUInt32LE(16);
    expect(() => map.update(key, value)).toThrow('Cannot write map "entries": it is full (16 entries)');
    expect(map.lookup(key, value)).toBe(false);
    const read = (take: boolean): Map<number, bigint> => {
      const found = new Map<number, bigint>();
      const visit = (keys: Buffer, keyAt: number, values: Buffer, valueAt: number): void => {
        found.set(keys.readUInt32LE(keyAt), values.readBigUInt64LE(valueAt));
      };
      if (take) map.takeAll(visit);
      else map.readAll(visit);
      return found;
    };
    expect(new Set(read(false))).toEqual(new Set(Array.from({ length: 16 }, (_, index) => [index, BigInt(index) * 3n])));
    key.writeUInt32LE(3);
    expect(map.delete(key)).toBe(true);
    expect(map.delete(key)).toBe(false);
    expect(read(true).size).toBe(15);
    expect(read(true).size).toBe(0);
    expect(() => map.lookup(Buffer.alloc(3), value)).toThrow("a buffer is shorter");
  });

  it("attaches to offsets of a file, with cookies, and detaches", async () => {
    await using object = await load();
    const symbols = execFileSync("nm", ["-D", "--defined-only", "/lib/x86_64-linux-gnu/libc.so.6"], { encoding: "utf8" });
    const offset = Number.parseInt(/^([0-9a-f]+) \w getppid@@/m.exec(symbols)?.[1] ?? "", 16);
    const link = await object.attachUprobes("on_function", { path: "/lib/x86_64-linux-gnu/libc.so.6", offsets: [offset], cookies: [77n] });
    const entries = object.map("entries");
    /** The cookie recorded for a new process. Other processes are recorded, too, and the map is small. */
    const seenBy = (): bigint | undefined => {
      entries.takeAll(() => undefined);
      const { pid, status } = spawnSync("sh", ["-c", ":"]);
      expect(status).toBe(0);
      let cookie: bigint | undefined;
      entries.takeAll((keys, keyAt, values, valueAt) => {
        if (keys.readUInt32LE(keyAt) === pid) cookie = values.readBigUInt64LE(valueAt);
      });
      return cookie;
    };
    await waitFor("a process to be seen", () => seenBy() === 77n);
    await link[Symbol.asyncDispose]();
    await link[Symbol.asyncDispose]();
    expect(seenBy()).toBeUndefined();
    await expect(object.attachUprobes("on_function", { path: "/no/such/file", offsets: [1] })).rejects.toThrow("errno 2");
    await expect(object.attachUprobes("on_function", { path: "/lib/x86_64-linux-gnu/libc.so.6", offsets: [] })).rejects.toThrow("0 sites");
  });

  it("runs a program on demand", async () => {
    await using object = await load({ constants: { step: 2n } });
    const context = Buffer.alloc(16);
    context.writeBigUInt64LE(21n);
    expect(object.run("on_demand", context)).toBe(42);
    expect(context.readBigUInt64LE(8)).toBe(42n);
    expect(() => object.run("nothing")).toThrow('program "nothing"');
  });

  it("measures its programs while statistics are enabled", async () => {
    await using object = await load({ constants: { watched_pid: 1 } });
    object.attach("on_syscall");
    const runs = (): bigint => object.stats().find(({ name }) => name === "on_syscall")?.runs ?? -1n;
    const before = runs();
    const counting = object.enableStats();
    expect(counting).not.toBeNull();
    await waitFor("runs", () => runs() > before);
    counting?.[Symbol.dispose]();
  });

  it("reports the stage and reason of a failure, and leaves nothing loaded", async () => {
    await expect(loadBpfObject({ path: join(directory, "none.o") })).rejects.toMatchObject({ details: { stage: "open", errno: 2 } });
    await expect(load({ constants: { nothing: 1 } })).rejects.toThrow('constant "nothing"');
    await expect(load({ maxEntries: { nothing: 1 } })).rejects.toThrow('map "nothing"');
    await expect(load({ maxEntries: { entries: 0 } })).rejects.toMatchObject({ details: { stage: "load", errno: 22 } });
    await expect(load({ isOptional: () => false })).rejects.toMatchObject({ details: { stage: "load", errno: 3 } });
    await using object = await loadBpfObject({ path, isOptional: () => true });
    expect(object.programs).toEqual(["on_syscall", "on_function", "on_demand", "on_tell", "on_switch", "on_nothing"]);
    expect(() => object.attach("on_nothing")).toThrow("errno 2");
  });

  it("signals only when a program wakes the readers of a ring, until it is closed", async () => {
    const object = await load();
    let wakes = 0;
    object.watchRing("records", () => wakes++);
    const emit = (flag: number): void => {
      const question = Buffer.alloc(16);
      question.writeUInt32LE(flag);
      expect(object.run("on_tell", question)).toBe(0);
    };
    const [withoutWaking, waking] = [1, 2];
    emit(waking);
    await waitFor("the first wake", () => wakes === 1);
    // Pending records do not wake a reader; each record with a wake-up does.
    emit(withoutWaking);
    for (let times = 2; times < 10; times++) {
      emit(waking);
      await waitFor("a wake", () => wakes === times);
    }
    expect(object.ring("records").drain(() => undefined)).toBe(10);
    await object[Symbol.asyncDispose]();
    expect(wakes).toBe(9);
  });

  it("leaves no program and no map after it is closed", async () => {
    const object = await load();
    object.attach("on_syscall");
    const loaded = programsOf(process.pid);
    expect(loaded.filter(isLoaded)).not.toEqual([]);
    const ring = object.ring("records");
    await object[Symbol.asyncDispose]();
    await object[Symbol.asyncDispose]();
    expect(ring.drain(() => undefined)).toBe(0);
    expect(programsOf(process.pid)).toEqual([]);
    // The kernel frees programs asynchronously.
    await waitFor("the end of the programs", () => !loaded.some(isLoaded));
  });

  it("readBtfLayout() finds the structures of the object", () => {
    const layout = readBtfLayout(path);
    expect(layout.struct("entry").sizeBytes).toBe(16);
    expect(Object.fromEntries(layout.struct("entry").fields)).toEqual({
      count: { offsetBytes: 0, sizeBytes: 8 },
      pair: { offsetBytes: 8, sizeBytes: 8 },
      "pair.number": { offsetBytes: 8, sizeBytes: 4 },
      "pair.low": { offsetBytes: 12, sizeBytes: 2 },
      "pair.bytes": { offsetBytes: 14, sizeBytes: 2 },
    });
    expect(() => layout.struct("nothing")).toThrow('Cannot find structure "nothing"');
  });
});
