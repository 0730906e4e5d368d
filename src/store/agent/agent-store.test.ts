import { once } from "node:events";
import { truncateSync } from "node:fs";
import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { batchFromRows, storedColumns } from "../columns/column-batch.ts";
import { decodeBatch, type RowBatch } from "../columns/column-codec.ts";
import type { Engine } from "../engine/engine.ts";
import { defineSignal, type Signal } from "../signals/define-signal.ts";
import {
  type SampleRow,
  sample,
  sampleRows,
  seededRandom,
  smallDisk,
  spawnProgram,
  TestClock,
  temporaryFolder,
  testEngine,
} from "../store.fixture.ts";
import { type AgentStore, type AgentStoreOptions, openAgentStore } from "./agent-store.ts";

const mebibyte = 1024 ** 2;
const minuteMs = 60_000;
const signals = [sample] as unknown as Signal[];

interface Opening extends Partial<AgentStoreOptions> {
  file: string;
}

const open = (engine: Engine, opening: Opening): Promise<AgentStore> =>
  openAgentStore(engine, { signals, maxBytes: 64 * mebibyte, clock: new TestClock(), log: silentLogger, ...opening });

const nowRows = (clock: TestClock, count: number, first = 0): SampleRow[] =>
  sampleRows(count, (index) => clock.wall * 1_000 + index, first);

const everything = { maxBytes: 64 * mebibyte, maxRows: 1_000_000 };

async function readAll(store: AgentStore, after = 0, limits = everything): Promise<RowBatch[]> {
  const batches: RowBatch[] = [];
  for (let cursor = after; ; ) {
    const { batch } = await store.readAfter("sample", cursor, limits);
    if (!batch) return batches;
    batches.push(batch);
    cursor = batch.lastSeq;
  }
}

async function seqs(store: AgentStore): Promise<number[]> {
  return (await store.query("SELECT seq FROM sample ORDER BY rowid")).map((row) => Number(row["seq"]));
}

const range = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, index) => first + index);

test("append() numbers rows from 1, and concurrent appends share commits without mixing their numbers", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: folder.file("a.duckdb"), clock });
  expect(store.heads().get("sample")).toEqual({ oldestSeq: 1, nextSeq: 1 });
  const ranges = await Promise.all(range(0, 19).map((index) => store.append(sample, nowRows(clock, 3, index * 3))));
  expect(ranges).toEqual(range(0, 19).map((index) => ({ firstSeq: index * 3 + 1, lastSeq: index * 3 + 3 })));
  expect(await store.query("SELECT count(*) AS n FROM sample WHERE amount + 6 = seq")).toEqual([{ n: 60 }]);
  expect(store.heads().get("sample")).toEqual({ oldestSeq: 1, nextSeq: 61 });
  expect(await store.append(sample, [])).toEqual({ firstSeq: 61, lastSeq: 60 });
});

test("readAfter() returns what append() stored, in every type, across chunk and batch borders", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: folder.file("a.duckdb"), clock });
  const rows = nowRows(clock, 5_000);
  for (let start = 0; start < rows.length; start += 700) await store.append(sample, rows.slice(start, start + 700));
  const columns = storedColumns(sample);
  for (const limits of [everything, { maxBytes: 40_000, maxRows: 10_000 }, { maxBytes: mebibyte, maxRows: 333 }]) {
    const batches = await readAll(store, 0, limits);
    expect(batches.flatMap(({ firstSeq, lastSeq }) => range(firstSeq, lastSeq))).toEqual(range(1, 5_000));
    for (const batch of batches) {
      expect(batch.data.length).toBeLessThanOrEqual(limits.maxBytes);
      expect(batch.rows).toBeLessThanOrEqual(limits.maxRows);
      const wanted = batchFromRows(sample, rows.slice(batch.firstSeq - 1, batch.lastSeq));
      const decoded = decodeBatch(batch, columns);
      expect(decoded.rows).toBe(wanted.rows);
      for (const [index, column] of wanted.columns.entries()) {
        const found = decoded.columns[index]!;
        expect(bytesOf(found, batch.rows)).toEqual(bytesOf(column, batch.rows));
      }
    }
  }
  // The last append is served from memory, from any of its rows on, with the same limits.
  for (const after of [4_900, 4_901, 4_907, 4_999]) {
    const recent = (await store.readAfter("sample", after, { maxBytes: mebibyte, maxRows: 50 })).batch!;
    expect(recent).toMatchObject({ firstSeq: after + 1, rows: Math.min(50, 5_000 - after) });
    const wanted = batchFromRows(sample, rows.slice(recent.firstSeq - 1, recent.lastSeq));
    const decoded = decodeBatch(recent, columns);
    for (const [index, column] of wanted.columns.entries()) {
      expect(bytesOf(decoded.columns[index]!, recent.rows)).toEqual(bytesOf(column, recent.rows));
    }
  }
  expect((await readAll(store, 4_998))[0]).toMatchObject({ firstSeq: 4_999, lastSeq: 5_000 });
  expect(await store.readAfter("sample", 5_000, everything)).toEqual({ signal: "sample", oldestSeq: 1, nextSeq: 5_001 });
  expect((await store.readAfter("sample", 0, { maxBytes: 1, maxRows: 1 })).batch).toMatchObject({ firstSeq: 1, rows: 1 });
  await expect(store.readAfter("nothing", 0, everything)).rejects.toMatchObject({ code: "not-found" });
});

/** The content of a column regardless of layout: a validity bitmap without nulls equals none. */
function bytesOf(column: ReturnType<typeof batchFromRows>["columns"][number], rows: number): unknown {
  const { name, type, validity, ...rest } = column;
  const body = rest.kind === "fixed" ? [...rest.values] : [[...rest.offsets], [...rest.bytes]];
  const nulls = range(0, rows - 1).filter((index) => validity && ((validity[index >> 3]! >> (index & 7)) & 1) === 0);
  return { name, type, body, nulls };
}

test("epoch and sequences survive a restart, and pruned sequences are never reused", async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const file = folder.file("a.duckdb");
  let epoch = "";
  {
    await using engine = await testEngine(folder.path);
    const store = await open(engine, { file, clock });
    expect(store.opened).toEqual({ how: "created" });
    epoch = store.epoch;
    await store.append(sample, nowRows(clock, 10));
    clock.pass(61 * minuteMs);
    expect((await store.prune()).prunedRows).toEqual({ sample: 10 });
    expect(store.heads().get("sample")).toEqual({ oldestSeq: 11, nextSeq: 11 });
    await store.close();
    await store.close();
  }
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, { file, clock });
  expect(store.opened).toEqual({ how: "existing" });
  expect(store.epoch).toBe(epoch);
  expect(store.heads().get("sample")).toEqual({ oldestSeq: 11, nextSeq: 11 });
  expect(await store.append(sample, nowRows(clock, 2))).toEqual({ firstSeq: 11, lastSeq: 12 });
  expect(await store.readAfter("sample", 3, everything)).toMatchObject({
    oldestSeq: 11,
    nextSeq: 13,
    batch: { firstSeq: 11, lastSeq: 12 },
  });
});

test("a signal continues after its newest row without additional writes", async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const file = folder.file("a.duckdb");
  {
    await using engine = await testEngine(folder.path);
    await using store = await open(engine, { file, clock });
    await store.append(sample, nowRows(clock, 10));
    await store.append(sample, nowRows(clock, 5));
    expect(await store.query("SELECT * FROM internal.heads")).toEqual([]);
  }
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, { file, clock });
  expect(store.heads().get("sample")).toEqual({ oldestSeq: 1, nextSeq: 16 });
  expect(await store.append(sample, nowRows(clock, 1))).toEqual({ firstSeq: 16, lastSeq: 16 });
});

test("continues a file of an older build, which saved the next sequence with every commit", async () => {
  using folder = temporaryFolder();
  const file = folder.file("a.duckdb");
  await using engine = await testEngine(folder.path);
  const sql = `
    CREATE SCHEMA internal;
    CREATE TABLE internal.meta (key VARCHAR NOT NULL, value VARCHAR NOT NULL);
    CREATE TABLE internal.heads (signal VARCHAR NOT NULL, next_seq UBIGINT NOT NULL);
    CREATE TABLE internal.losses (signal VARCHAR NOT NULL, reason VARCHAR NOT NULL, rows UBIGINT NOT NULL);
    INSERT INTO internal.heads VALUES ('sample', 42);
  `;
  const before = await engine.attach("agent", file, [{ version: 1, sql }]);
  await before.close();
  await using store = await open(engine, { file });
  expect(await store.append(sample, nowRows(new TestClock(), 2))).toEqual({ firstSeq: 42, lastSeq: 43 });
});

test("append() rejects rows beyond its queue, counts them, and keeps the count across a restart", async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const file = folder.file("a.duckdb");
  {
    await using engine = await testEngine(folder.path);
    await using store = await open(engine, { file, clock, maxQueuedRows: 10 });
    const results = await Promise.allSettled([1, 2, 3].map(() => store.append(sample, nowRows(clock, 6))));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
    expect(results[1]).toMatchObject({ reason: { code: "exhausted" } });
    expect(store.losses()).toEqual([{ signal: "sample", reason: "queue-full", rows: 12 }]);
    expect(await store.append(sample, nowRows(clock, 6))).toEqual({ firstSeq: 7, lastSeq: 12 });
  }
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, { file, clock });
  expect(store.losses()).toEqual([{ signal: "sample", reason: "queue-full", rows: 12 }]);
});

test("append() rejects an invalid row and stores the others", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: folder.file("a.duckdb"), clock });
  const bad = { ...nowRows(clock, 1)[0]!, amount: 0.5 };
  const [good, refused] = await Promise.allSettled([store.append(sample, nowRows(clock, 2)), store.append(sample, [bad])]);
  expect(good).toMatchObject({ value: { firstSeq: 1, lastSeq: 2 } });
  expect(refused).toMatchObject({ reason: { code: "invalid" } });
  expect(store.losses()).toEqual([]);
});

test("close() commits queued rows", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  const store = await open(engine, { file: folder.file("a.duckdb"), clock });
  const waiting = [1, 2, 3].map((index) => store.append(sample, nowRows(clock, 5, index)));
  await store.close();
  await Promise.all(waiting);
  await expect(store.append(sample, nowRows(clock, 1))).rejects.toMatchObject({ code: "unavailable" });
  await using again = await open(engine, { file: folder.file("a.duckdb"), clock });
  expect(await seqs(again)).toEqual(range(1, 15));
});

test("prune() removes rows by age in sequence order, also when the clock was set back an hour", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: folder.file("a.duckdb"), clock });
  await store.append(sample, nowRows(clock, 10));
  clock.pass(30 * minuteMs);
  await store.append(sample, nowRows(clock, 10));
  clock.step(-60 * minuteMs);
  await store.append(sample, nowRows(clock, 10));
  // No row is really an hour old. By wall time, the third part is younger than the first.
  expect((await store.prune()).prunedRows).toEqual({});
  clock.pass(45 * minuteMs);
  await store.append(sample, nowRows(clock, 10));
  // The first part is 75 min old, but its wall time says 15 min: it stays longer, and no young row is removed.
  expect((await store.prune()).prunedRows).toEqual({});
  expect(await seqs(store)).toEqual(range(1, 40));
  clock.pass(46 * minuteMs);
  expect((await store.prune()).prunedRows).toEqual({ sample: 10 });
  clock.pass(120 * minuteMs);
  expect((await store.prune()).prunedRows).toEqual({ sample: 30 });
});

test("prune() keeps rows that were appended to an empty signal while it looked for expired ones", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: folder.file("a.duckdb"), clock });
  for (let round = 0; round < 40; round++) {
    clock.pass(120 * minuteMs);
    await store.prune();
    expect(await seqs(store)).toEqual([]);
    clock.pass(30 * minuteMs);
    const [{ lastSeq }, { prunedRows }] = await Promise.all([store.append(sample, nowRows(clock, 3)), store.prune()]);
    expect(prunedRows).toEqual({});
    expect(await seqs(store)).toEqual(range(lastSeq - 2, lastSeq));
  }
});

test("prune() keeps young rows behind old ones from a clock that was behind", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: folder.file("a.duckdb"), clock });
  await store.append(sample, nowRows(clock, 5));
  await store.append(
    sample,
    sampleRows(5, (index) => index),
  );
  await store.append(sample, nowRows(clock, 5));
  expect((await store.prune()).prunedRows).toEqual({});
});

test("prune() by bytes reduces the used size to the limit, oldest rows first, by weight", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  const light = defineSignal({ ...sample, name: "light", retention: { ...sample.retention, agent: { maxAgeMs: 3_600_000, weight: 1 } } });
  const heavy = defineSignal({ ...sample, name: "heavy", retention: { ...sample.retention, agent: { maxAgeMs: 3_600_000, weight: 3 } } });
  const both = [light, heavy] as unknown as Signal[];
  await using store = await open(engine, {
    file: folder.file("a.duckdb"),
    clock,
    signals: both,
    maxBytes: 6 * mebibyte,
    maxQueuedRows: 100_000,
  });
  const random = seededRandom(1);
  const noisy = (count: number): SampleRow[] =>
    nowRows(clock, count).map((row) => ({ ...row, ratio: random(), share: random(), note: String(random()) }));
  for (let round = 0; round < 10; round++) await Promise.all([store.append(light, noisy(6_000)), store.append(heavy, noisy(6_000))]);
  const result = await store.prune();
  expect(result.usedBytes).toBeLessThanOrEqual(6 * mebibyte);
  expect(result.usedBytes).toBeGreaterThan(3 * mebibyte);
  const stats = await store.stats();
  expect(stats.usedBytes + stats.walBytes).toBeLessThanOrEqual(6 * mebibyte);
  expect(stats.rows["heavy"]! / stats.rows["light"]!).toBeGreaterThan(2);
  for (const name of ["light", "heavy"]) {
    const { oldestSeq, nextSeq } = store.heads().get(name)!;
    expect(nextSeq).toBe(60_001);
    expect(await store.query(`SELECT min(seq) AS low, max(seq) AS high, count(*) AS n FROM ${name}`)).toEqual([
      { low: oldestSeq, high: 60_000, n: 60_001 - oldestSeq },
    ]);
  }
  // Freed space is reused while rows keep arriving.
  for (let round = 0; round < 5; round++) {
    await Promise.all([store.append(light, noisy(6_000)), store.append(heavy, noisy(6_000))]);
    await store.prune();
  }
  const later = await store.stats();
  expect(later.usedBytes + later.walBytes).toBeLessThanOrEqual(6 * mebibyte);
  expect(later.fileBytes).toBeLessThanOrEqual(stats.fileBytes);
});

test("a full disk is reported, counted and survived", async ({ skip }) => {
  const disk = smallDisk(4 * mebibyte);
  if (typeof disk === "string") return skip(disk);
  using _disk = disk;
  await using engine = await testEngine(disk.path);
  const clock = new TestClock();
  await using store = await open(engine, { file: `${disk.path}/a.duckdb`, clock });
  let stored = 0;
  let refused = 0;
  for (let round = 0; round < 60; round++) {
    try {
      stored = (await store.append(sample, nowRows(clock, 1_000))).lastSeq;
    } catch (error) {
      expect(error).toMatchObject({ code: "unavailable", message: expect.stringContaining("no space left") });
      refused += 1_000;
    }
  }
  expect(refused).toBeGreaterThan(0);
  expect(store.losses()).toEqual([{ signal: "sample", reason: "disk-full", rows: refused }]);
  expect(await seqs(store)).toEqual(range(1, stored));
  disk.resize(64 * mebibyte);
  const next = await store.append(sample, nowRows(clock, 5));
  expect(next.firstSeq).toBe(stored + 1);
  expect(await seqs(store)).toEqual(range(1, stored + 5));
  expect(await store.query("SELECT reason, rows FROM internal.losses")).toEqual([{ reason: "disk-full", rows: refused }]);
});

test("a damaged store starts a new epoch", async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const file = folder.file("a.duckdb");
  let epoch = "";
  {
    await using engine = await testEngine(folder.path);
    await using store = await open(engine, { file, clock });
    epoch = store.epoch;
    await store.append(sample, nowRows(clock, 100));
  }
  truncateSync(file, 20_000);
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, { file, clock });
  expect(store.opened.how).toBe("recovered");
  expect(store.epoch).not.toBe(epoch);
  expect(await store.append(sample, nowRows(clock, 1))).toEqual({ firstSeq: 1, lastSeq: 1 });
});

test("a declaration may gain and lose columns; a changed type is rejected", async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const file = folder.file("a.duckdb");
  await using engine = await testEngine(folder.path);
  const { rollup: _rollup, ...plain } = sample;
  const old = defineSignal({ ...plain, columns: { label: "text", gone: "int" } });
  const stored = await open(engine, { file, clock, signals: [old] as unknown as Signal[] });
  await stored.append(old, [{ at: 1, mono_ms: 1, label: "before", gone: 5 }]);
  await stored.close();
  const grown = defineSignal({ ...plain, columns: { label: "text", fresh: "float?" } });
  const later = await open(engine, { file, clock, signals: [grown] as unknown as Signal[] });
  await later.append(grown, [{ at: 2, mono_ms: 2, label: "after", fresh: 1.5 }]);
  expect(await later.query("SELECT seq, label, fresh, gone FROM sample ORDER BY seq")).toEqual([
    { seq: 1, label: "before", fresh: null, gone: 5 },
    { seq: 2, label: "after", fresh: 1.5, gone: null },
  ]);
  expect((await later.readAfter("sample", 0, everything)).batch?.columns.map(({ name }) => name)).toEqual([
    "time",
    "mono_ms",
    "label",
    "fresh",
  ]);
  await later.close();
  const changed = defineSignal({ ...plain, columns: { label: "int" } });
  await expect(open(engine, { file, clock, signals: [changed] as unknown as Signal[] })).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringContaining('"sample.label" holds VARCHAR'),
  });
});

test("kill -9 during appends keeps every acknowledged row exactly once", { timeout: 60_000 }, async () => {
  using folder = temporaryFolder();
  const file = folder.file("a.duckdb");
  const program = `
    const { openEngine } = await import("./engine/engine.ts");
    const { openAgentStore } = await import("./agent/agent-store.ts");
    const { sample, sampleRows } = await import("./store.fixture.ts");
    const { systemClock } = await import("../base/clock.ts");
    const { silentLogger: log } = await import("../base/log.ts");
    const [, , file, folder] = process.argv;
    // A small memory limit, so that checkpoints happen in between too.
    const engine = await openEngine({ dataDirectories: [folder], memoryLimitBytes: 8 * 1024 ** 2, threads: 1, log });
    const store = await openAgentStore(engine, { file, signals: [sample], maxBytes: 1024 ** 3, clock: systemClock, log });
    const work = async () => {
      for (;;) {
        const { firstSeq, lastSeq } = await store.append(sample, sampleRows(50, () => Date.now() * 1000));
        process.stdout.write(firstSeq + " " + lastSeq + "\\n");
      }
    };
    await Promise.all([work(), work(), work()]);
  `;
  const acknowledged = new Set<number>();
  const random = seededRandom(3);
  for (let round = 0; round < 3; round++) {
    const child = spawnProgram(program, folder.path, [file, folder.path]);
    let output = "";
    child.stdout!.on("data", (text) => {
      output += String(text);
      // Kills after a number of acknowledgements, not after a time, so that every round has done work.
      if (output.length > 500 + random() * 4_000) child.kill("SIGKILL");
    });
    await once(child, "close");
    for (const line of output.split("\n").slice(0, -1)) {
      const [first, last] = line.split(" ").map(Number);
      for (const seq of range(first!, last!)) {
        expect(acknowledged.has(seq)).toBe(false);
        acknowledged.add(seq);
      }
    }
  }
  expect(acknowledged.size).toBeGreaterThan(1_000);
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, { file });
  expect(store.opened).toEqual({ how: "existing" });
  const found = await seqs(store);
  expect(found).toEqual(range(1, found.length));
  expect([...acknowledged].every((seq) => seq <= found.length)).toBe(true);
  expect(store.heads().get("sample")).toEqual({ oldestSeq: 1, nextSeq: found.length + 1 });
});

test("kill -9 right after all rows were pruned: their sequences are not reused", { timeout: 60_000 }, async () => {
  using folder = temporaryFolder();
  const file = folder.file("a.duckdb");
  const program = `
    const { openEngine } = await import("./engine/engine.ts");
    const { openAgentStore } = await import("./agent/agent-store.ts");
    const { sample, sampleRows, TestClock } = await import("./store.fixture.ts");
    const { silentLogger: log } = await import("../base/log.ts");
    const [, , file, folder] = process.argv;
    const clock = new TestClock();
    const engine = await openEngine({ dataDirectories: [folder], memoryLimitBytes: 64 * 1024 ** 2, threads: 1, log });
    let isPruning = false;
    const attach = async (...target) => {
      const database = await engine.attach(...target);
      const write = database.write.bind(database);
      database.write = async (...work) => {
        const result = await write(...work);
        if (isPruning) process.kill(process.pid, "SIGKILL");
        return result;
      };
      return database;
    };
    const store = await openAgentStore({ attach }, { file, signals: [sample], maxBytes: 1024 ** 3, clock, log });
    await store.append(sample, sampleRows(50, () => clock.wallMs() * 1000));
    clock.pass(61 * 60_000);
    isPruning = true;
    await store.prune();
  `;
  const [, signal] = await once(spawnProgram(program, folder.path, [file, folder.path]), "close");
  expect(signal).toBe("SIGKILL");
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, { file });
  expect(store.opened).toEqual({ how: "existing" });
  expect(await seqs(store)).toEqual([]);
  expect(await store.append(sample, nowRows(new TestClock(), 1))).toEqual({ firstSeq: 51, lastSeq: 51 });
});

test("queued rows wait while a merge or a query holds the memory, and are not lost", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  let failures = 0;
  // DuckDB's own error text. Really exhausting memory with a temporary table would invalidate the whole instance.
  const short = new Error("Out of Memory Error: failed to allocate data of size 256.0 KiB (63.9 MiB/64.0 MiB used)");
  const scarce: Engine = Object.create(engine, {
    attach: {
      value: async (...given: Parameters<Engine["attach"]>) => {
        const database = await engine.attach(...given);
        const write: typeof database.write = (work, committed) =>
          database.write(async (transaction) => {
            if (failures-- > 0) {
              clock.pass(10_000);
              throw short;
            }
            return await work(transaction);
          }, committed);
        return new Proxy(database, {
          get: (target, name) => {
            if (name === "write") return write;
            const value: unknown = Reflect.get(target, name, target);
            return typeof value === "function" ? value.bind(target) : value;
          },
        });
      },
    },
  });
  await using store = await open(scarce, { file: folder.file("agent.duckdb"), clock });
  failures = 2;
  expect(await store.append(sample, nowRows(clock, 10))).toEqual({ firstSeq: 1, lastSeq: 10 });
  expect(failures).toBeLessThan(0);
  expect(store.losses()).toEqual([]);
  // Memory is never freed: the rows are rejected and counted.
  failures = Number.POSITIVE_INFINITY;
  await expect(store.append(sample, nowRows(clock, 7))).rejects.toMatchObject({ code: "exhausted" });
  failures = 0;
  expect(store.losses()).toEqual([{ signal: "sample", reason: "store-error", rows: 7 }]);
});
