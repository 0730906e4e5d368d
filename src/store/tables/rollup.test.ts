import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import type { Row } from "../engine/sql-values.ts";
import { defineSignal, type Signal } from "../signals/define-signal.ts";
import { type SampleRow, sample, sampleRow, seededRandom, TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { rollupColumns } from "./rollup.ts";

const minuteMs = 60_000;
const options = { signals: [sample] as unknown as Signal[], maxBytes: 1024 ** 3, log: silentLogger };

/** Simulates an agent: sends rows with the next sequences of an epoch. */
class Sender {
  readonly #next = new Map<string, number>();
  readonly #colony: () => ColonyStore;

  constructor(colony: () => ColonyStore) {
    this.#colony = colony;
  }

  async send(agentId: string, epoch: string, rows: readonly SampleRow[]): Promise<void> {
    const firstSeq = this.#next.get(agentId + epoch) ?? 1;
    const nextSeq = firstSeq + rows.length;
    this.#next.set(agentId + epoch, nextSeq);
    const slice = { signal: "sample", oldestSeq: 1, nextSeq, batch: encodeBatch(batchFromRows(sample, rows), firstSeq) };
    const [outcome] = await this.#colony().applyPulls([{ agentId, epoch, slices: [slice], losses: [] }]);
    expect(outcome).toMatchObject({ storedRows: rows.length });
  }
}

/** The expected content of the views, computed directly from raw rows. */
const recompute = (minutes: number): string => `
  SELECT agent_id, time_bucket(INTERVAL ${minutes} MINUTE, "time") AS "time", label, count(*) AS sample_count,
    sum(amount) AS amount_sum, min(amount) AS amount_min, max(amount) AS amount_max, avg(amount) AS amount_avg, arg_max(amount, (source, seq)) AS amount_last,
    avg(ratio) AS ratio_avg, max(ratio) AS ratio_max, avg(share) AS share_avg, arg_max(share, (source, seq)) AS share_last, min(size) AS size_min
  FROM raw.sample JOIN internal.sources USING (source) GROUP BY ALL ORDER BY ALL`;

async function expectSame(colony: ColonyStore): Promise<void> {
  for (const [view, minutes] of [
    ["sample_1m", 1],
    ["sample_10m", 10],
  ] as const) {
    const merged = await colony.query(`SELECT * FROM ${view} ORDER BY ALL`);
    const wanted = await colony.query(recompute(minutes));
    expect(merged.map(rounded)).toEqual(wanted.map(rounded));
    expect(merged.length).toBeGreaterThan(0);
  }
}

/** Float sums depend on the order of addition in their last digits. */
function rounded(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === "number" ? Number(value.toPrecision(12)) : value]),
  );
}

test("roll-ups equal a recomputation from raw rows: late rows, clock steps, new epochs, restarts", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  const file = folder.file("c.duckdb");
  let colony = await openColonyStore(engine, { file, clock, ...options });
  const sender = new Sender(() => colony);
  const random = seededRandom(42);
  for (let round = 0; round < 60; round++) {
    clock.pass(30_000);
    if (round === 20) clock.step(-60 * minuteMs);
    if (round === 40) clock.step(90 * minuteMs);
    const agentId = random() < 0.5 ? "a" : "b";
    const epoch = round > 30 && agentId === "a" ? "second" : "first";
    const lateMs = random() < 0.3 ? random() * 30 * minuteMs : 0;
    const rows = Array.from({ length: 1 + Math.floor(random() * 40) }, () => ({
      ...sampleRow(Math.floor(random() * 1_000), Math.floor((clock.wall - lateMs + random() * 60_000) * 1_000)),
      ratio: random(),
    }));
    await sender.send(agentId, epoch, rows);
    if (random() < 0.4) await colony.rollup();
    if (round === 33) {
      await colony.close();
      colony = await openColonyStore(engine, { file, clock, ...options });
    }
  }
  clock.pass(11 * minuteMs);
  await colony.rollup();
  await expectSame(colony);
  await colony.close();
});

test("rollup() reads each raw row once, and writes ten-minute partials only every ten minutes", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await openColonyStore(engine, { file: folder.file("c.duckdb"), clock, ...options });
  const sender = new Sender(() => colony);
  const counted = async (view: string): Promise<unknown> =>
    (await colony.query(`SELECT coalesce(sum(sample_count), 0) AS n FROM ${view}`))[0]?.["n"];
  await sender.send("a", "e", [sampleRow(1, clock.wall * 1_000)]);
  expect(await colony.rollup()).toEqual({ partials: { sample_1m: 1, sample_10m: 1 } });
  expect(await colony.rollup()).toEqual({ partials: { sample_1m: 0 } });
  await sender.send("a", "e", [sampleRow(2, clock.wall * 1_000), sampleRow(5, clock.wall * 1_000)]);
  clock.pass(minuteMs);
  expect(await colony.rollup()).toEqual({ partials: { sample_1m: 1 } });
  expect([await counted("sample_1m"), await counted("sample_10m")]).toEqual([3, 1]);
  clock.pass(10 * minuteMs);
  // Setting the clock back does not delay it.
  clock.step(-60 * minuteMs);
  expect(await colony.rollup()).toEqual({ partials: { sample_1m: 0, sample_10m: 1 } });
  expect([await counted("sample_1m"), await counted("sample_10m")]).toEqual([3, 3]);
});

test("rollup() loses nothing when it runs concurrently with pulls and itself", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await openColonyStore(engine, { file: folder.file("c.duckdb"), clock, ...options });
  const sender = new Sender(() => colony);
  const work: Promise<unknown>[] = [];
  for (let round = 0; round < 30; round++) {
    work.push(sender.send("a", "e", [sampleRow(round, clock.wall * 1_000)]));
    work.push(colony.rollup());
    if (round % 10 === 0) work.push(colony.prune());
  }
  await Promise.all(work);
  // Both resolutions are due; prune() alone rolls up only when rows may expire.
  clock.pass(11 * minuteMs);
  await colony.rollup();
  await expectSame(colony);
});

test("sums of large integers do not overflow", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await openColonyStore(engine, { file: folder.file("c.duckdb"), clock, ...options });
  const rows = Array.from({ length: 3_000 }, () => ({ ...sampleRow(1, clock.wall * 1_000), amount: Number.MAX_SAFE_INTEGER }));
  await new Sender(() => colony).send("a", "e", rows);
  await colony.rollup();
  expect(await colony.query("SELECT amount_sum FROM sample_1m")).toEqual([{ amount_sum: 3_000n * BigInt(Number.MAX_SAFE_INTEGER) }]);
});

test("rollupColumns() rejects measures that the column type does not support", () => {
  const { rollup: _rollup, ...plain } = sample;
  const summed = defineSignal({ ...plain, columns: { word: "text" }, rollup: { keys: [], measures: { word: ["sum"] } } });
  expect(() => rollupColumns(summed as unknown as Signal)).toThrow("cannot be summed");
});
