import { chownSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type AgentStore, openAgentStore } from "../agent/agent-store.ts";
import type { Engine } from "../engine/engine.ts";
import { defineSegmentSignal } from "../signals/define-segment-signal.ts";
import { sample, sampleRows, smallDisk, TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import type { AgentSegments, AgentSegmentsOptions } from "./agent-segments.ts";
import { sealTicks, tick, tickBody, tickRow, tickRows, tickStartUs, traceOf } from "./segment.fixture.ts";
import { hexSql, idSql } from "./segment-source.ts";
import { WriteAheadFile } from "./write-ahead.ts";

const mebibyte = 1024 ** 2;

interface Opened {
  store: AgentStore;
  segments: AgentSegments;
  clock: TestClock;
}

async function openStore(
  engine: Engine,
  path: string,
  options: Partial<AgentSegmentsOptions> = {},
  clock = new TestClock(),
): Promise<Opened> {
  const store = await openAgentStore(engine, {
    file: join(path, "agent.duckdb"),
    signals: [sample],
    maxBytes: 64 * mebibyte,
    clock,
    log: silentLogger,
    segments: {
      signals: [tick],
      directory: path,
      maxBytes: 64 * mebibyte,
      seal: sealTicks,
      cut: { ageMs: 60_000 },
      retryMs: 5,
      ...options,
    },
  });
  return { store, segments: store.segments as AgentSegments, clock };
}

async function countOf({ store, segments }: Opened, where = "true", range = {}): Promise<number> {
  const { sql } = await segments.segmentSource(tick, range);
  const [row] = await store.query(`SELECT count(*) AS n FROM ${sql} WHERE ${where}`);
  return Number(row?.["n"]);
}

function gateOf(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const filesIn = (path: string): string[] => readdirSync(path).filter((name) => !name.startsWith("empty-"));

describe("openAgentSegments()", () => {
  it("makes rows queryable, and keeps them across a restart", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openStore(engine, folder.path);
    expect(await countOf(first)).toBe(0);
    await Promise.all([first.segments.append("tick", tickBody(tickRows(10))), first.segments.append("tick", tickBody(tickRows(20, 10)))]);
    await first.segments.flush();
    expect(await countOf(first)).toBe(30);
    await first.segments.append("tick", tickBody(tickRows(5, 30)));
    await first.store.close();
    expect(filesIn(folder.file("wal/tick"))).toEqual([]);
    const second = await openStore(engine, folder.path);
    expect(await countOf(second)).toBe(35);
    expect(second.segments.stats()["tick"]).toMatchObject({ files: 2, rows: 35, waitingBytes: 0 });
    const { sql } = await second.segments.segmentSource(tick);
    const rows = await second.store.query(
      `SELECT agent_id, ${hexSql("id8", "span_id")} AS span FROM ${sql} WHERE trace_id = ${idSql("id16", "?")}`,
      [traceOf(2)],
    );
    expect(rows.map((row) => row["span"]).sort()).toEqual([6, 7, 8].map((index) => tickRow(index).span_id).sort());
    await second.store.close();
  });

  it("gives files to the owner of the directory when it runs as root", async (context) => {
    if (process.getuid?.() !== 0) return context.skip("needs root");
    using folder = temporaryFolder();
    chownSync(folder.path, 65_534, 65_534);
    await using engine = await testEngine(folder.path);
    const { store, segments } = await openStore(engine, folder.path);
    await segments.append("tick", tickBody(tickRows(10)));
    await segments.flush();
    await segments.append("tick", tickBody(tickRows(10, 10)));
    const made = ["segments", "wal"].flatMap((name) => [
      name,
      ...readdirSync(folder.file(name), { recursive: true }).map((path) => `${name}/${String(path)}`),
    ]);
    expect(made.filter((path) => statSync(folder.file(path)).uid !== 65_534)).toEqual([]);
    expect(made.length).toBe(7);
    await store.close();
  });

  it("cuts files by rows, by bytes and by age", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const opened = await openStore(engine, folder.path, { cut: { rows: 25, bytes: 100_000, ageMs: 60_000 } });
    for (let index = 0; index < 10; index++) await opened.segments.append("tick", tickBody(tickRows(10, index * 10)));
    await opened.segments.append("tick", { ...tickBody([]), body: Buffer.from(`[]${" ".repeat(100_000)}`) });
    await opened.segments.append("tick", tickBody(tickRows(1, 200)));
    await opened.segments.flush();
    expect(opened.segments.listAfter("tick", 0, 100).entries.map(({ rows }) => rows)).toEqual([30, 30, 30, 10, 1]);
    await opened.store.close();
    const aged = await openStore(engine, folder.path, { cut: { ageMs: 20 } });
    await aged.segments.append("tick", tickBody(tickRows(1, 300)));
    await expect.poll(() => countOf(aged)).toBe(102);
    await aged.store.close();
  });

  it("excludes rows outside the range, and checks times only in files that cross its bounds", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const opened = await openStore(engine, folder.path);
    for (let index = 0; index < 4; index++) {
      await opened.segments.append("tick", tickBody(tickRows(30, index * 30)));
      await opened.segments.flush();
    }
    const at = (row: number): number => tickStartUs + row * 1_000;
    for (const [first, last] of [
      [0, 119],
      [30, 59],
      [31, 58],
      [10, 100],
      [45, 45],
    ] as const) {
      const range = { fromUs: at(first), untilUs: at(last), isExact: true };
      expect(await countOf(opened, "true", range)).toBe(last - first + 1);
      const { sql } = await opened.segments.segmentSource(tick, range);
      expect(sql.includes("make_timestamp")).toBe(first % 30 !== 0 || last % 30 !== 29);
    }
    expect(await countOf(opened, "true", { fromUs: at(500), isExact: true })).toBe(0);
    await opened.store.close();
  });

  it("selects files by time, service and look-up value, and never misses one", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const opened = await openStore(engine, folder.path);
    for (let index = 0; index < 20; index++) {
      await opened.segments.append("tick", tickBody(tickRows(30, index * 30).map((row) => ({ ...row, service: `s${index % 4}` }))));
      await opened.segments.flush();
    }
    const { segments } = opened;
    const minute = (second: number): number => tickStartUs + second * 30_000;
    expect((await segments.segmentSource(tick, { fromUs: minute(5), untilUs: minute(6) - 1 })).files).toBe(1);
    expect((await segments.segmentSource(tick, { fromUs: minute(5), untilUs: minute(6) })).files).toBe(2);
    expect((await segments.segmentSource(tick, { service: "s1" })).files).toBe(5);
    expect((await segments.segmentSource(tick, { service: "none" })).files).toBe(0);
    expect(await countOf(opened, "true", { service: "none" })).toBe(0);
    for (let trace = 0; trace < 200; trace++) {
      const range = { lookup: traceOf(trace) };
      expect(await countOf(opened, `trace_id = '${traceOf(trace)}'`, range)).toBe(3);
      expect((await segments.segmentSource(tick, range)).files).toBeLessThan(4);
    }
    await expect(segments.segmentSource(tick, { lookup: "xyz" })).rejects.toThrow("not an id of 32 hex digits");
    await opened.store.close();
  });

  it("lists segments after a number, with their exact bytes", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const { store, segments } = await openStore(engine, folder.path);
    for (const count of [10, 20, 30]) {
      await segments.append("tick", tickBody(tickRows(count)));
      await segments.flush();
    }
    expect(segments.listAfter("tick", 1, 1)).toMatchObject({
      lastNumber: 3,
      totalRows: 60,
      more: true,
      entries: [{ number: 2, rowsBefore: 10 }],
    });
    const parts: Uint8Array[] = [];
    for await (const part of segments.read("tick", 2, 100)) parts.push(part);
    expect(Buffer.concat(parts)).toEqual(readFileSync(folder.file("segments/tick/000000002.parquet")).subarray(100));
    await expect(segments.read("tick", 9, 0).next()).rejects.toMatchObject({ code: "not-found" });
    await expect(segments.append("nothing", tickBody([]))).rejects.toMatchObject({ code: "not-found" });
    await store.close();
  });

  it("rejects bodies beyond the queue limit, and counts undecodable ones", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const gate = gateOf();
    const seal = async (job: Parameters<typeof sealTicks>[0]) => {
      await gate.opened;
      return await sealTicks(job);
    };
    const opened = await openStore(engine, folder.path, { maxWaitingBytes: 10_000, cut: { bytes: 4_000, ageMs: 60_000 }, seal });
    await opened.segments.append("tick", tickBody(tickRows(10)));
    await opened.segments.append("tick", { ...tickBody([]), kind: 7 });
    const more = tickBody(tickRows(20));
    await expect(Promise.all([opened.segments.append("tick", more), opened.segments.append("tick", more)])).rejects.toMatchObject({
      code: "exhausted",
    });
    gate.open();
    await opened.segments.flush();
    expect(opened.store.losses()).toEqual([{ signal: "tick", reason: "malformed", rows: 1 }]);
    expect(opened.segments.stats()["tick"]?.waitingBytes).toBe(0);
    await opened.segments.append("tick", more);
    await opened.store.close();
  });

  it("discards a file that can never be decoded, counts its rows, and continues", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const seal: typeof sealTicks = (job) => (job.number === 1 ? Promise.reject(new Error("no such form")) : sealTicks(job));
    const opened = await openStore(engine, folder.path, { seal });
    await opened.segments.append("tick", tickBody(tickRows(7)));
    await opened.segments.flush();
    await opened.segments.append("tick", tickBody(tickRows(3)));
    await opened.segments.flush();
    expect(await countOf(opened)).toBe(3);
    expect(opened.store.losses()).toEqual([{ signal: "tick", reason: "undecodable", rows: 7 }]);
    expect(filesIn(folder.file("wal/tick"))).toEqual(["000000001.wal.damaged"]);
    await opened.store.close();
  });

  it("adds segments in order although several are sealed concurrently", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const gate = gateOf();
    const sealed: number[] = [];
    const seal: typeof sealTicks = async (job) => {
      if (job.number === 1) await gate.opened;
      sealed.push(job.number);
      return await sealTicks(job);
    };
    const { store, segments } = await openStore(engine, folder.path, { seal, sealConcurrency: 3, cut: { rows: 5, ageMs: 60_000 } });
    for (let index = 0; index < 3; index++) await segments.append("tick", tickBody(tickRows(5, index * 5)));
    await expect.poll(() => sealed).toEqual([2, 3]);
    expect(segments.listAfter("tick", 0, 9).entries).toEqual([]);
    gate.open();
    await segments.flush();
    expect(segments.listAfter("tick", 0, 9).entries.map(({ number, rowsBefore }) => [number, rowsBefore])).toEqual([
      [1, 0],
      [2, 5],
      [3, 10],
    ]);
    await store.close();
  });

  it("adopts segments and write-ahead files after losing the database, and offers a colony only new ones", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openStore(engine, folder.path);
    for (let index = 0; index < 3; index++) {
      await first.segments.append("tick", tickBody(tickRows(10, index * 10)));
      await first.segments.flush();
    }
    // The colony has pulled the first two.
    expect(first.segments.listAfter("tick", 2, 10).entries.map(({ number }) => number)).toEqual([3]);
    await first.store.close();
    // Acknowledged but not sealed when the process ended. One number is below that of the last segment.
    for (const [number, from] of [
      [4, 30],
      [5, 40],
    ] as const) {
      const writeAhead = new WriteAheadFile(folder.file(`wal/tick/00000000${number}.wal`));
      await writeAhead.append(tickBody(tickRows(5, from)));
      await writeAhead.close();
    }
    writeFileSync(folder.file("segments/tick/000000005.parquet"), "made again of its write-ahead file");
    writeFileSync(folder.file("agent.duckdb.corrupt"), "a block is damaged");
    const second = await openStore(engine, folder.path);
    expect(second.store.opened.how).toBe("recovered");
    expect(second.store.epoch).not.toBe(first.store.epoch);
    await second.segments.flush();
    expect(await countOf(second)).toBe(40);
    const { entries, lastNumber, totalRows } = second.segments.listAfter("tick", 0, 10);
    expect(entries.map(({ number, rowsBefore, rows }) => [number, rowsBefore, rows])).toEqual([
      [3, 0, 10],
      [4, 10, 5],
      [5, 15, 5],
    ]);
    expect([lastNumber, totalRows]).toEqual([5, 20]);
    await second.store.close();
    const third = await openStore(engine, folder.path);
    expect(await countOf(third)).toBe(40);
    expect(third.segments.listAfter("tick", 3, 10).entries).toHaveLength(2);
    await third.store.close();
    // The database file is gone.
    rmSync(folder.file("agent.duckdb"));
    const fourth = await openStore(engine, folder.path);
    expect(await countOf(fourth)).toBe(40);
    expect(fourth.segments.listAfter("tick", 0, 10).entries.map(({ number }) => number)).toEqual([4, 5]);
    await fourth.store.close();
    // A valid file that lost its log, and with it all of its rows.
    const empty = await engine.attach("empty", folder.file("empty.duckdb"), []);
    await empty.close();
    renameSync(folder.file("empty.duckdb"), folder.file("agent.duckdb"));
    const fifth = await openStore(engine, folder.path);
    expect(fifth.store.opened.how).toBe("created");
    expect(await countOf(fifth)).toBe(40);
    await fifth.store.close();
  });

  it("moves damaged segments aside and counts their rows as lost", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openStore(engine, folder.path);
    for (let index = 0; index < 4; index++) {
      await first.segments.append("tick", tickBody(tickRows(10 + index)));
      await first.segments.flush();
    }
    await first.store.close();
    const file = (number: number): string => folder.file(`segments/tick/00000000${number}.parquet`);
    truncateSync(file(1), 100);
    rmSync(file(2));
    writeFileSync(file(3), Buffer.alloc(readFileSync(file(3)).length));
    const second = await openStore(engine, folder.path);
    expect(await countOf(second)).toBe(13);
    expect(second.store.losses()).toEqual([{ signal: "tick", reason: "segment-damaged", rows: 33 }]);
    expect(filesIn(folder.file("segments/tick"))).toEqual(["000000001.parquet.damaged", "000000003.parquet.damaged", "000000004.parquet"]);
    expect(second.segments.listAfter("tick", 0, 9).entries.map(({ state }) => state)).toEqual(["lost", "lost", "lost", "stored"]);
    await second.store.append(
      sample,
      sampleRows(1, () => tickStartUs),
    );
    await second.store.close();
    const third = await openStore(engine, folder.path);
    expect(third.store.losses()).toEqual([{ signal: "tick", reason: "segment-damaged", rows: 33 }]);
    await third.store.close();
  });

  it("finds a corrupt segment after a failed query, and keeps the database", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openStore(engine, folder.path);
    for (let index = 0; index < 3; index++) {
      await first.segments.append("tick", tickBody(tickRows(500, index * 500)));
      await first.segments.flush();
    }
    await first.store.close();
    const file = folder.file("segments/tick/000000002.parquet");
    const bytes = readFileSync(file);
    bytes.fill(0x5a, 4, bytes.length - 2_000);
    writeFileSync(file, bytes);
    const opened = await openStore(engine, folder.path);
    const sum = async (): Promise<unknown> => {
      const { sql } = await opened.segments.segmentSource(tick);
      return (await opened.store.query(`SELECT count(*) AS n, max(hash(t)) IS NOT NULL AS read FROM ${sql} t`))[0]?.["n"];
    };
    await expect(sum()).rejects.not.toMatchObject({ code: "corrupt" });
    await opened.store.prune();
    expect(await sum()).toBe(1_000);
    expect(opened.store.losses()).toEqual([{ signal: "tick", reason: "segment-damaged", rows: 500 }]);
    expect(filesIn(folder.path)).not.toContain("agent.duckdb.corrupt");
    await opened.store.close();
  });

  it("removes expired and excess segments: first the manifest row, later the file", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const { store, segments, clock } = await openStore(engine, folder.path, { maxBytes: 60_000, unlinkDelayMs: 1_000 });
    for (let index = 0; index < 3; index++) {
      await segments.append("tick", tickBody(tickRows(10, index * 10)));
      await segments.flush();
      clock.pass(1_000_000);
    }
    clock.pass(900_000);
    const { sql } = await segments.segmentSource(tick);
    await store.prune();
    expect(segments.listAfter("tick", 0, 9).entries.map(({ number }) => number)).toEqual([2, 3]);
    expect(existsSync(folder.file("segments/tick/000000001.parquet"))).toBe(true);
    expect(await store.query(`SELECT count(*) AS n FROM ${sql}`)).toEqual([{ n: 30 }]);
    await expect.poll(() => existsSync(folder.file("segments/tick/000000001.parquet")), { timeout: 10_000 }).toBe(false);
    for (let index = 0; index < 30; index++) {
      await segments.append("tick", tickBody(tickRows(20, index * 10)));
      await segments.flush();
    }
    await store.prune();
    expect(segments.stats()["tick"]?.sizeBytes).toBeLessThan(60_000);
    expect(segments.listAfter("tick", 0, 99)).toMatchObject({ lastNumber: 33, totalRows: 630 });
    await store.close();
    const again = await openStore(engine, folder.path);
    expect(again.segments.listAfter("tick", 0, 99)).toMatchObject({ lastNumber: 33, totalRows: 630 });
    await again.store.close();
  });

  it("merges small neighbours that a colony has, or that were never offered to one", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const opened = await openStore(engine, folder.path, { unlinkDelayMs: 1 });
    const { store, segments, clock } = opened;
    const add = async (first: number): Promise<void> => {
      for (let index = first; index < first + 20; index++) {
        await segments.append("tick", tickBody(tickRows(3, index * 3)));
        await segments.flush();
      }
    };
    await add(0);
    await add(20);
    await store.prune();
    expect(segments.stats()["tick"]?.files).toBe(40);
    segments.listAfter("tick", 20, 10);
    await store.prune();
    const { entries } = segments.listAfter("tick", 19, 100);
    expect(entries[0]).toMatchObject({ firstNumber: 1, number: 20, rows: 60, rowsBefore: 0, services: expect.any(Array) });
    expect(entries.length).toBe(21);
    await add(40);
    clock.pass(11 * 60_000);
    await store.prune();
    const listed = () => segments.listAfter("tick", 0, 100).entries.map(({ firstNumber, number }) => [firstNumber, number]);
    // It is unknown whether the colony stored what it was offered, so these must not be merged.
    const alone = Array.from({ length: 20 }, (_, index) => [21 + index, 21 + index]);
    expect(listed()).toEqual([[1, 20], ...alone, [41, 60]]);
    segments.listAfter("tick", 40, 10);
    await store.prune();
    expect(listed()).toEqual([
      [1, 40],
      [41, 60],
    ]);
    await expect.poll(() => filesIn(folder.file("segments/tick")).length).toBe(2);
    expect(await countOf(opened)).toBe(180);
    for (const trace of [0, 19, 39]) expect(await countOf(opened, `trace_id = '${traceOf(trace)}'`, { lookup: traceOf(trace) })).toBe(3);
    expect((await segments.segmentSource(tick, { lookup: traceOf(39) })).files).toBe(1);
    await store.close();
    const again = await openStore(engine, folder.path);
    expect(await countOf(again)).toBe(180);
    await again.store.close();
  });

  it("reads files with an older schema, with null in missing columns", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openStore(engine, folder.path);
    await first.segments.append("tick", tickBody(tickRows(10)));
    await first.store.close();
    const newer = defineSegmentSignal({ ...tick, lookup: "trace_id", version: 2, columns: { ...tick.columns, build: "text?" } });
    const second = await openStore(engine, folder.path, { signals: [newer] });
    const { sql } = await second.segments.segmentSource(newer);
    expect(await second.store.query(`SELECT count(*) AS n, count(build) AS builds, count(name) AS names FROM ${sql}`)).toEqual([
      { n: 10, builds: 0, names: 10 },
    ]);
    await second.store.close();
  });

  it("delays responses in order while the queue is long", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const gate = gateOf();
    const seal: AgentSegmentsOptions["seal"] = async (job) => {
      await gate.opened;
      return sealTicks(job);
    };
    const opened = await openStore(engine, folder.path, { cut: { rows: 10, ageMs: 60_000 }, seal, holdBytes: 1, maxHoldMs: 60_000 });
    const { segments } = opened;
    await segments.append("tick", tickBody(tickRows(10)));
    const done: number[] = [];
    const held = [1, 2, 3].map((index) => segments.append("tick", tickBody(tickRows(10, index * 10))).then(() => done.push(index)));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(done).toEqual([]);
    gate.open();
    await Promise.all(held);
    expect(done).toEqual([1, 2, 3]);
    await segments.flush();
    expect(await countOf(opened)).toBe(40);
    await opened.store.close();
  });

  it("rejects a body held for too long, and stores nothing of it", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const gate = gateOf();
    const seal: AgentSegmentsOptions["seal"] = async (job) => {
      await gate.opened;
      return sealTicks(job);
    };
    const opened = await openStore(engine, folder.path, { cut: { rows: 10, ageMs: 60_000 }, seal, holdBytes: 1, maxHoldMs: 100 });
    await opened.segments.append("tick", tickBody(tickRows(10)));
    const started = performance.now();
    await expect(opened.segments.append("tick", tickBody(tickRows(10, 10)))).rejects.toMatchObject({ code: "exhausted" });
    expect(performance.now() - started).toBeGreaterThan(90);
    gate.open();
    await opened.segments.flush();
    expect(await countOf(opened)).toBe(10);
    await opened.store.close();
  });

  it("rejects held bodies when it closes", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const gate = gateOf();
    const { segments, store } = await openStore(engine, folder.path, {
      cut: { rows: 10, ageMs: 60_000 },
      seal: async (job) => {
        await gate.opened;
        return sealTicks(job);
      },
      holdBytes: 1,
    });
    await segments.append("tick", tickBody(tickRows(10)));
    const held = segments.append("tick", tickBody(tickRows(10, 10)));
    const closed = store.close();
    await expect(held).rejects.toMatchObject({ code: "unavailable" });
    gate.open();
    await closed;
  });

  it("waits on a full disk without losing acknowledged rows", async (context) => {
    const disk = smallDisk(3 * mebibyte);
    if (typeof disk === "string") return context.skip(disk);
    using _disk = disk;
    await using engine = await testEngine(disk.path);
    const opened = await openStore(engine, disk.path, { maxBytes: 64 * mebibyte, cut: { rows: 500, ageMs: 60_000 } });
    writeFileSync(join(disk.path, "filler"), Buffer.alloc(2.2 * mebibyte));
    let acknowledged = 0;
    let refused: unknown;
    for (let index = 0; index < 200 && refused === undefined; index++) {
      await opened.segments.append("tick", tickBody(tickRows(100, index * 100))).then(
        () => {
          acknowledged += 100;
        },
        (error: unknown) => {
          refused = error;
        },
      );
    }
    expect(refused).toMatchObject({ code: "unavailable", details: { failure: "no-space" } });
    expect(acknowledged).toBeGreaterThan(0);
    rmSync(join(disk.path, "filler"));
    await opened.segments.append("tick", tickBody(tickRows(100, 90_000)));
    await opened.segments.flush();
    const { totalRows } = opened.segments.listAfter("tick", 0, 1);
    expect(totalRows).toBe(acknowledged + 100);
    await opened.store.close();
  });
});
