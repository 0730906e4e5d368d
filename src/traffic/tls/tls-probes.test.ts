import { closeSync, fstatSync, mkdtempSync, openSync, readFileSync, readSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import type { BpfLink, BpfMap, UprobeSites } from "../../bpf/index.ts";
import { readElfImage } from "../../code/index.ts";
import { type CodeMaps, type MappedFile, type OpenedFile } from "../../host/index.ts";
import { controlsLayout } from "../kernel/kernel-controls.ts";
import { createLibraryFinder } from "./library-finder.ts";
import { planProbes } from "./probe-plan.ts";
import type { FilePlan, ProbePlanner } from "./probe-planner.ts";
import { createTlsProbes, type TlsProbesOptions } from "./tls-probes.ts";

const node = realpathSync(process.execPath);

/** Processes as defined by a test; every file is a real one on this machine, under the name and key of the test. */
class Machine implements CodeMaps {
  readonly processes = new Map<number, { executable: string; files: string[] }>();
  /** Maps paths on the fake host to files here. */
  readonly files = new Map<string, { source: string; key: string; identity?: string }>();
  reads = 0;
  opens = 0;
  /** Processes through which nothing can be opened: they end, or are being set up. */
  readonly closed = new Set<number>();

  run(pid: number, executable: string, ...libraries: string[]): void {
    this.processes.set(pid, { executable, files: [executable, ...libraries] });
  }

  listProcesses(): number[] {
    return [...this.processes.keys()];
  }

  read(pid: number): { executable: string; files: MappedFile[] } | null {
    this.reads++;
    const process = this.processes.get(pid);
    if (process === undefined) return null;
    const files = process.files.map((path) => ({ key: this.files.get(path)?.key ?? path, path, range: "0-1" }));
    return { executable: process.executable, files };
  }

  open(pid: number, file: MappedFile): OpenedFile | null {
    if (this.closed.has(pid)) return null;
    const known = [...this.files.values()].find(({ key }) => key === file.key);
    if (known === undefined) return null;
    this.opens++;
    const fd = openSync(known.source, "r");
    return {
      fd,
      path: `/proc/self/fd/${fd}`,
      identity: known.identity ?? known.key,
      sizeBytes: fstatSync(fd).size,
      readAt: (into, offset) => readSync(fd, into, 0, into.length, offset),
      [Symbol.dispose]: () => closeSync(fd),
    };
  }

  executableOf(pid: number): string | null {
    return this.processes.get(pid)?.executable ?? null;
  }

  isOnHost(_file: OpenedFile, path: string): boolean {
    return path.startsWith("/usr/");
  }
}

/** Plans in this process; the planner's own tests use a child. */
function createPlanner(): ProbePlanner & { planned: number } {
  const planner = {
    planned: 0,
    plan: async (files: Parameters<ProbePlanner["plan"]>[0]): Promise<FilePlan[]> => {
      planner.planned += files.length;
      return files.map(({ fd, isExecutable }) => {
        const image = readElfImage((into, offset) => readSync(fd, into, 0, into.length, offset));
        return { plan: image === null ? null : planProbes(image, isExecutable), isFinal: true };
      });
    },
  };
  return planner;
}

interface FakeObject {
  object: TlsProbesOptions["object"];
  attached: (UprobeSites & { program: string })[];
  closed: number;
  maps: Map<string, Map<string, string>>;
}

function fakeObject(refuse?: (sites: UprobeSites) => boolean): FakeObject {
  const maps = new Map<string, Map<string, string>>();
  const fake: FakeObject = {
    attached: [],
    closed: 0,
    maps,
    object: {
      programs: ["tls_enter", "tls_plaintext"],
      attachUprobes: async (program, sites): Promise<BpfLink> => {
        if (refuse?.(sites) === true) throw new CoralError({ code: "not-permitted", message: "the kernel refuses" });
        fake.attached.push({ program, ...sites });
        return {
          [Symbol.asyncDispose]: async () => {
            fake.closed++;
          },
        };
      },
      map: (name) => {
        const entries = maps.get(name) ?? new Map<string, string>();
        maps.set(name, entries);
        const map: Partial<BpfMap> = {
          keyBytes: name === "tls_sockets" ? 16 : 4,
          lookup: (key, value) => Buffer.from(entries.get(key.toString("hex")) ?? "", "hex").copy(value) > 0,
          update: (key, value) => void entries.set(key.toString("hex"), value.toString("hex")),
          delete: (key) => entries.delete(key.toString("hex")),
          takeAll: (visit) => {
            for (const [key, value] of entries) visit(Buffer.from(key, "hex"), 0, Buffer.from(value, "hex"), 0);
            entries.clear();
            return 0;
          },
          readAll: (visit) => {
            for (const [key, value] of entries) visit(Buffer.from(key, "hex"), 0, Buffer.from(value, "hex"), 0);
            return entries.size;
          },
        };
        return map as BpfMap;
      },
    },
  };
  return fake;
}

function machine(): Machine {
  const made = new Machine();
  made.files.set("/usr/bin/node", { source: node, key: "1:1" });
  made.files.set("/opt/node", { source: node, key: "1:2" });
  made.files.set("/bin/sh", { source: "/bin/sh", key: "1:3" });
  return made;
}

const settings = { isEnabled: true, excludedExecutables: [] as string[] };
const key = (pid: number): string => Buffer.from(Uint32Array.of(pid).buffer).toString("hex");

describe.skipIf(process.arch !== "x64")("createTlsProbes()", () => {
  it("attaches once per file, however many processes run it", async () => {
    const host = machine();
    const fake = fakeObject();
    for (let pid = 10; pid < 60; pid++) host.run(pid, "/usr/bin/node");
    host.run(70, "/bin/sh");
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner() });
    await probes.refresh();
    const links = fake.attached.length;
    expect(links).toBeGreaterThan(0);
    expect(links).toBeLessThanOrEqual(3);
    expect(probes.state()).toEqual([{ path: "/usr/bin/node", library: "node", processes: 50, problem: null }]);
    host.run(100, "/opt/node");
    await probes.refresh();
    expect(fake.attached).toHaveLength(2 * links);
    expect(probes.linkCount).toBe(2 * links);
    await probes[Symbol.asyncDispose]();
    expect(fake.closed).toBe(2 * links);
  });

  it("uses one program for entry and return of a call if the kernel supports it", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    const apart = fakeObject();
    const joined = fakeObject();
    joined.object = { ...joined.object, programs: ["tls_enter", "tls_plaintext", "tls_call"] };
    for (const { object } of [apart, joined]) {
      await using probes = createTlsProbes({ object, settings, maps: host, planner: createPlanner() });
      await probes.refresh();
    }
    const places = (fake: FakeObject, wanted: (sites: { program: string } & UprobeSites) => boolean): number[] =>
      fake.attached.filter(wanted).flatMap(({ offsets }) => [...offsets]);
    const returns = places(apart, ({ isReturn }) => isReturn === true);
    expect(returns.length).toBeGreaterThan(0);
    expect(places(apart, ({ isSession }) => isSession === true)).toEqual([]);
    expect(places(joined, ({ program, isSession }) => program === "tls_call" && isSession === true).sort()).toEqual(returns.sort());
    expect(places(joined, ({ isReturn }) => isReturn === true)).toEqual([]);
    // Functions without a return probe, such as SSL_free, are unchanged.
    const entries = places(apart, ({ program }) => program === "tls_enter").filter((place) => !returns.includes(place));
    expect(places(joined, ({ program }) => program === "tls_enter")).toEqual(entries);
  });

  it("recognises two paths of one file", async () => {
    const host = machine();
    host.files.set("/merged/a", { source: node, key: "0:40:9", identity: "overlay:9" });
    host.files.set("/merged/b", { source: node, key: "0:41:9", identity: "overlay:9" });
    host.run(1, "/merged/a");
    host.run(2, "/merged/b");
    const fake = fakeObject();
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner() });
    await probes.refresh();
    expect(new Set(fake.attached.map((one) => `${one.program} ${one.isReturn}`)).size).toBe(fake.attached.length);
    expect(probes.state()[0]?.processes).toBe(2);
  });

  it("detaches some time after the last process has ended", async () => {
    const host = machine();
    const fake = fakeObject();
    let nowMs = 0;
    host.run(1, "/usr/bin/node");
    host.run(2, "/opt/node");
    await using probes = createTlsProbes({
      object: fake.object,
      settings,
      maps: host,
      planner: createPlanner(),
      now: () => nowMs,
      unusedMs: { host: 60_000, elsewhere: 10_000 },
    });
    await probes.refresh();
    const links = probes.linkCount;
    host.processes.clear();
    for (nowMs = 2_000; nowMs <= 10_000; nowMs += 2_000) await probes.refresh();
    expect(fake.closed).toBe(0);
    for (; nowMs <= 20_000; nowMs += 2_000) await probes.refresh();
    expect(fake.closed).toBe(links / 2);
    host.run(3, "/usr/bin/node");
    await probes.refresh();
    expect(probes.linkCount).toBe(links / 2);
    host.processes.clear();
    for (; nowMs <= 120_000; nowMs += 2_000) await probes.refresh();
    expect(fake.closed).toBe(links);
    expect(probes.state()).toEqual([]);
  });

  it("reports why a file has no probes, and leaves none half attached", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    const fake = fakeObject(({ isReturn }) => isReturn !== true);
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner() });
    await probes.refresh();
    expect(probes.state()).toEqual([{ path: "/usr/bin/node", library: "node", processes: 1, problem: "the kernel refuses" }]);
    expect(fake.closed).toBe(fake.attached.length);
    expect(probes.linkCount).toBe(0);
  });

  it("retries when another process runs the file", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    const planner = createPlanner();
    const plan = planner.plan;
    // The process ends while its file is planned.
    planner.plan = async (files) => {
      const plans = await plan(files);
      host.closed.add(1);
      return plans;
    };
    const fake = fakeObject();
    let nowMs = 0;
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner, now: () => nowMs });
    await probes.refresh();
    expect(probes.state()).toMatchObject([{ problem: "it cannot be opened through any running process" }]);
    host.processes.delete(1);
    host.run(2, "/usr/bin/node");
    nowMs += 100;
    await probes.refresh();
    expect(probes.linkCount).toBeGreaterThan(0);
    expect(probes.state()).toMatchObject([{ problem: null }]);
  });

  it("retries with growing pauses", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    let attempts = 0;
    const fake = fakeObject(() => ++attempts <= 2);
    let nowMs = 0;
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner(), now: () => nowMs });
    const attemptsAt: number[] = [];
    for (; nowMs <= 8_000; nowMs += 1_000) {
      const before = attempts;
      await probes.refresh();
      if (attempts > before) attemptsAt.push(nowMs);
    }
    expect(attemptsAt).toEqual([0, 2_000, 6_000]);
    expect(probes.linkCount).toBeGreaterThan(0);
  });

  it("retries at once with a new process", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    let refusals = 1;
    const fake = fakeObject(() => refusals-- > 0);
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner(), now: () => 0 });
    await probes.refresh();
    expect(probes.linkCount).toBe(0);
    host.run(2, "/usr/bin/node");
    await probes.refresh();
    expect(probes.linkCount).toBeGreaterThan(0);
  });

  it("inspects files again that could not be opened through their process at first", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    host.closed.add(1);
    const fake = fakeObject();
    let nowMs = 0;
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner(), now: () => nowMs });
    await probes.refresh();
    host.closed.clear();
    nowMs = 2_000;
    await probes.refresh();
    expect(probes.linkCount).toBeGreaterThan(0);
  });

  it("reads neither excluded programs nor unknown processes", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    host.run(2, "/opt/node");
    const fake = fakeObject();
    const secretive = { isEnabled: true, excludedExecutables: ["/opt/node"] };
    await using probes = createTlsProbes({ object: fake.object, settings: secretive, maps: host, planner: createPlanner() });
    await probes.refresh();
    expect(fake.maps.get("tls_controls")?.get("00000000")).toBe("01000000");
    expect(Object.fromEntries(fake.maps.get("tls_processes") ?? [])).toEqual({ [key(1)]: "01000000" });
    expect(probes.state().find(({ path }) => path === "/opt/node")?.problem).toBe("switched off by config");
    expect(probes.linkCount).toBe(fake.attached.length);
    probes.applySettings({ isEnabled: true, excludedExecutables: ["/opt/*"], excludedPids: [1] });
    await probes.refresh();
    expect([...(fake.maps.get("tls_processes") ?? [])]).toEqual([]);
    probes.applySettings(secretive);
    await probes.refresh();
    expect([...(fake.maps.get("tls_processes") ?? [])]).toEqual([[key(1), "01000000"]]);
    // The pid is reused: the new process is not read in place of the old one.
    host.run(1, "/opt/node");
    await probes.refresh();
    expect([...(fake.maps.get("tls_processes") ?? [])]).toEqual([]);
  });

  it("unbinds connections when a program is excluded later, and reads it again when it no longer is", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    host.run(2, "/opt/node");
    const fake = fakeObject();
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner() });
    await probes.refresh();
    const links = probes.linkCount;
    const binding = (pid: number): string => `1122334455667788${key(pid)}00000000`;
    for (const pid of [1, 2]) fake.object.map("tls_sockets").update(Buffer.from(binding(pid), "hex"), Buffer.alloc(16));
    probes.applySettings({ isEnabled: true, excludedExecutables: ["node"] });
    await probes.refresh();
    expect([...(fake.maps.get("tls_sockets") ?? [])]).toEqual([]);
    expect(Buffer.from(fake.maps.get("controls")?.get("00000000") ?? "", "hex").readUInt32LE(controlsLayout.tlsUnbound)).toBe(1);
    expect([...(fake.maps.get("tls_processes") ?? [])]).toEqual([]);
    expect(probes.linkCount).toBe(0);
    expect(fake.closed).toBe(links);
    probes.applySettings(settings);
    await probes.refresh();
    expect(fake.maps.get("tls_controls")?.get("00000000")).toBe("00000000");
    expect(probes.linkCount).toBe(links);
  });

  it("detaches everything when disabled", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    const fake = fakeObject();
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner() });
    await probes.refresh();
    probes.applySettings({ isEnabled: false, excludedExecutables: [] });
    await probes.refresh();
    expect(probes.linkCount).toBe(0);
    expect(fake.closed).toBe(fake.attached.length);
  });

  it("detaches everything during a pause, and attaches again after it", async () => {
    const host = machine();
    host.run(1, "/usr/bin/node");
    const fake = fakeObject();
    await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner() });
    await probes.refresh();
    const links = probes.linkCount;
    probes.setPaused(true);
    await probes.refresh();
    expect(fake.closed).toBe(links);
    expect(probes.linkCount).toBe(0);
    probes.setPaused(false);
    await probes.refresh();
    expect(probes.linkCount).toBe(links);
  });
});

describe.skipIf(process.arch !== "x64")("createTlsProbes() on unsupported TLS", () => {
  it("reports the reason per program, from its first such connection until it ends or loads a supported library", async () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-opaque-"));
    try {
      const linked = join(directory, "linked");
      writeFileSync(linked, Buffer.concat([readFileSync("/bin/sh"), Buffer.alloc(3 << 20), Buffer.from("BoringSSL"), Buffer.alloc(99)]));
      const host = machine();
      host.files.set("/opt/linked", { source: linked, key: "7:1" });
      host.files.set("/usr/lib/libgnutls.so.30", { source: "/bin/sh", key: "7:2" });
      host.run(1, "/bin/sh");
      host.run(2, "/bin/sh", "/usr/lib/libgnutls.so.30");
      host.run(3, "/opt/linked");
      host.run(4, "/usr/bin/node");
      const fake = fakeObject();
      let nowMs = 0;
      const now = (): number => nowMs;
      await using probes = createTlsProbes({ object: fake.object, settings, maps: host, planner: createPlanner(), now });
      await probes.refresh();
      const others = (): unknown[] => probes.state().filter(({ library }) => library === "other");
      expect(others()).toEqual([]);
      for (const pid of [2, 3, 4]) fake.object.map("tls_opaque").update(Buffer.from(key(pid), "hex"), Buffer.alloc(4, 1));
      await probes.refresh();
      expect(others()).toEqual([
        { path: "/bin/sh", library: "other", processes: 1, problem: "GnuTLS is not supported" },
        { path: "/opt/linked", library: "other", processes: 1, problem: "BoringSSL is linked into it without symbols" },
      ]);
      expect(probes.unreadable()).toEqual([
        { pid: 2, reason: "tls-unreadable", detail: "GnuTLS is not supported", count: 1 },
        { pid: 3, reason: "tls-unreadable", detail: "BoringSSL is linked into it without symbols", count: 1 },
      ]);
      host.processes.delete(3);
      await probes.refresh();
      expect(others()).toHaveLength(1);
      host.run(2, "/bin/sh", "/usr/lib/libgnutls.so.30", "/usr/bin/node");
      nowMs = 120_000;
      await probes.refresh();
      expect(others()).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

describe.skipIf(process.arch !== "x64")("createLibraryFinder()", () => {
  it("inspects a process three times soon and rarely then, and a file once", async () => {
    const host = machine();
    for (let pid = 1; pid <= 20; pid++) host.run(pid, "/bin/sh");
    const finder = createLibraryFinder(host, createPlanner());
    for (let nowMs = 0; nowMs < 100_000; nowMs += 2_000) await finder.scan(nowMs);
    expect(host.reads).toBe(60);
    expect(host.opens).toBe(1);
  });

  it("detects another program in the same process, and a library that is loaded late", async () => {
    const host = machine();
    host.run(1, "/bin/sh");
    const finder = createLibraryFinder(host, createPlanner());
    await finder.scan(0);
    expect([...finder.libraries()]).toEqual([]);
    host.run(1, "/bin/sh", "/opt/node");
    const late = await finder.scan(2_000);
    expect(late.added.map(({ path, isExecutable }) => ({ path, isExecutable }))).toEqual([{ path: "/opt/node", isExecutable: false }]);
    host.run(1, "/usr/bin/node");
    await finder.scan(10_000);
    expect(finder.executableOf(1)).toBe("/usr/bin/node");
    expect([...finder.libraries()].map(({ path, users }) => [path, users.size])).toEqual([
      ["/opt/node", 0],
      ["/usr/bin/node", 1],
    ]);
  });

  it("inspects a file again when its inode is reused", async () => {
    const host = machine();
    host.files.set("/a", { source: "/bin/sh", key: "5:5" });
    host.run(1, "/a");
    const finder = createLibraryFinder(host, createPlanner());
    await finder.scan(0);
    host.processes.clear();
    await finder.scan(1);
    host.files.set("/a", { source: node, key: "5:5", identity: "new" });
    host.run(2, "/a");
    const changes = await finder.scan(2);
    expect(changes.added).toHaveLength(1);
  });

  it("plans a file once, even if no process ran it in between", async () => {
    const host = machine();
    const planner = createPlanner();
    const finder = createLibraryFinder(host, planner);
    for (let nowMs = 0; nowMs < 5_000; nowMs += 1_000) {
      host.processes.clear();
      if (nowMs % 2_000 === 0) host.run(nowMs + 1, "/usr/bin/node");
      const changes = await finder.scan(nowMs);
      for (const library of [...finder.libraries()]) finder.forget(library);
      expect(changes.added).toHaveLength(nowMs % 2_000 === 0 ? 1 : 0);
    }
    expect(planner.planned).toBe(1);
  });

  it("plans no file that cannot implement TLS", async () => {
    const host = machine();
    const planner = createPlanner();
    host.run(1, "/bin/sh");
    await createLibraryFinder(host, planner).scan(0);
    expect(planner.planned).toBe(0);
  });

  it("reports a file at which the planner failed, and plans it again when it returns", async () => {
    const host = machine();
    const failing: FilePlan = { plan: { library: "openssl", problem: "it died" }, isFinal: false };
    const results: FilePlan[] = [failing, { plan: null, isFinal: true }];
    const finder = createLibraryFinder(host, { plan: async () => results.splice(0, 1) });
    host.run(1, "/usr/bin/node");
    expect((await finder.scan(0)).added.map(({ plan }) => plan)).toEqual([failing.plan]);
    host.processes.clear();
    await finder.scan(1);
    for (const library of [...finder.libraries()]) finder.forget(library);
    host.run(2, "/usr/bin/node");
    expect((await finder.scan(2)).added).toEqual([]);
    expect([...finder.libraries()]).toEqual([]);
    expect(results).toEqual([]);
  });

  it("an aborted scan's remaining files are planned by the next scan", async () => {
    const host = machine();
    const planner = createPlanner();
    const stop = new AbortController();
    const finder = createLibraryFinder(host, {
      plan: async (files, signal) => {
        if (signal !== undefined) stop.abort();
        signal?.throwIfAborted();
        return planner.plan(files);
      },
    });
    host.run(1, "/usr/bin/node");
    await expect(finder.scan(0, stop.signal)).rejects.toThrow(/abort/i);
    expect([...finder.libraries()]).toEqual([]);
    expect((await finder.scan(1)).added).toHaveLength(1);
  });
});
