import { expect, test } from "vitest";
import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { silentLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import type { Row } from "../engine/sql-values.ts";
import { defineSignal, type RowOf, type Signal } from "../signals/define-signal.ts";
import { red } from "../signals/traffic.ts";
import { seededRandom, TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { rollupColumns } from "./rollup.ts";

const minuteMs = 60_000;
const options = { signals: [red] as unknown as Signal[], maxBytes: 1024 ** 3, log: silentLogger };
type RedRow = RowOf<typeof red.columns>;

/** Simulates an agent: sends rows with the next sequences of an epoch. */
function createSender(colony: () => ColonyStore) {
  const next = new Map<string, number>();
  return async (agentId: string, epoch: string, rows: readonly RedRow[]): Promise<void> => {
    const firstSeq = next.get(agentId + epoch) ?? 1;
    const nextSeq = firstSeq + rows.length;
    next.set(agentId + epoch, nextSeq);
    const slice = { signal: "red", oldestSeq: 1, nextSeq, batch: encodeBatch(batchFromRows(red, rows), firstSeq) };
    const [outcome] = await colony().applyPulls([{ agentId, epoch, slices: [slice], losses: [] }]);
    expect(outcome).toMatchObject({ storedRows: rows.length });
  };
}

function redRow(random: () => number, atUs: number, more: Partial<RedRow> = {}): RedRow {
  const durations = new Array<number>(fineLayout.bucketCount).fill(0);
  const requests = Math.floor(random() * 20);
  for (let index = 0; index < requests; index++) {
    const bucket = bucketOf(fineLayout, 10 ** (2 + random() * 8));
    durations[bucket] = (durations[bucket] ?? 0) + 1;
  }
  const duration = sparse(durations);
  return {
    at: atUs,
    mono_ms: 0,
    service: `service-${Math.floor(random() * 3)}`,
    role: random() < 0.5 ? "server" : "client",
    protocol: "http",
    is_tls: false,
    server_port: 80,
    peer_address: "10.0.0.1",
    peer: random() < 0.5 ? null : "other",
    method: "GET",
    route: "/",
    status: random() < 0.8 ? "200" : "500",
    is_error: false,
    window_ms: 10_000,
    requests,
    request_bytes: Math.floor(random() * 1e6),
    response_bytes: Math.floor(random() * 1e6),
    duration_us: Math.floor(random() * 1e9),
    queue_us: Math.floor(random() * 1e6),
    queue_samples: Math.floor(random() * requests),
    duration_lo: duration.lo,
    duration_counts: duration.counts,
    queue_lo: Math.floor(random() * 200),
    queue_counts: random() < 0.3 ? [] : [Math.floor(random() * 9) + 1],
    first_byte_lo: 0,
    first_byte_counts: [],
    ...more,
  };
}

const keys = 'agent_id, "time", service, role, protocol, is_tls, server_port, peer, peer_address, method, route, status, is_error';
const bucketed = (minutes: number): string => keys.replace('"time"', `time_bucket(INTERVAL ${minutes} MINUTE, "time") AS "time"`);

/** One row per key and bucket of a histogram, from any relation with these columns. */
const flat = (name: string, relation: string, by: string): string =>
  `SELECT ${keys}, bucket, sum(n)::DOUBLE AS n FROM (
     SELECT ${by}, unnest(range(${name}_lo, ${name}_lo + len(${name}_counts))) AS bucket, unnest(${name}_counts) AS n FROM ${relation}
   ) GROUP BY ALL HAVING sum(n) > 0 ORDER BY ALL`;

const sums = ["requests", "request_bytes", "response_bytes", "duration_us", "queue_us", "queue_samples"];

async function expectSame(colony: ColonyStore): Promise<void> {
  for (const [view, minutes] of [
    ["red_1m", 1],
    ["red_10m", 10],
  ] as const) {
    const merged = await colony.query(
      `SELECT ${keys}, sample_count, ${sums.map((name) => `${name}_sum`).join(", ")} FROM ${view} ORDER BY ALL`,
    );
    const wanted = await colony.query(
      `SELECT ${bucketed(minutes)}, count(*) AS sample_count, ${sums.map((name) => `sum(${name}) AS ${name}_sum`).join(", ")} FROM red GROUP BY ALL ORDER BY ALL`,
    );
    expect(merged).toEqual(wanted);
    expect(merged.length).toBeGreaterThan(0);
    for (const name of ["duration", "queue", "first_byte"]) {
      const rows: Row[] = await colony.query(flat(name, view, keys));
      expect(rows).toEqual(await colony.query(flat(name, "red", bucketed(minutes))));
      if (name !== "first_byte") expect(rows.length).toBeGreaterThan(0);
    }
  }
}

test("histograms of roll-ups equal those of raw rows, bucket by bucket: late rows, clock steps, new epochs, restarts", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  const file = folder.file("c.duckdb");
  let colony = await openColonyStore(engine, { file, clock, ...options });
  const send = createSender(() => colony);
  const random = seededRandom(7);
  for (let round = 0; round < 40; round++) {
    clock.pass(30_000);
    if (round === 15) clock.step(-60 * minuteMs);
    const rows = Array.from({ length: 1 + Math.floor(random() * 12) }, () =>
      redRow(random, (clock.wall - (random() < 0.2 ? 25 * minuteMs : 0)) * 1_000),
    );
    await send(random() < 0.5 ? "a" : "b", round < 25 ? "e1" : "e2", rows);
    if (random() < 0.5) await colony.rollup();
    if (round % 13 === 0) {
      await colony.close();
      colony = await openColonyStore(engine, { file, clock, ...options });
    }
  }
  clock.pass(11 * minuteMs);
  await colony.rollup();
  await expectSame(colony);
  await colony.close();
});

test("rollup() handles more rows than one step, and none twice", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await openColonyStore(engine, { file: folder.file("c.duckdb"), clock, ...options });
  const send = createSender(() => colony);
  const random = seededRandom(8);
  const some = Array.from({ length: 1_000 }, () => redRow(random, clock.wall * 1_000));
  for (let round = 0; round < 5; round++)
    await send(
      "a",
      "e",
      Array.from({ length: 9_000 }, (_, index) => some[index % 1_000] as RedRow),
    );
  await colony.rollup();
  await expectSame(colony);
  expect(await colony.query("SELECT count(DISTINCT ingest) AS steps FROM rollup.red_1m")).toEqual([{ steps: 3 }]);
});

test("invalid histograms of an agent neither stop a roll-up nor exhaust memory", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await openColonyStore(engine, { file: folder.file("c.duckdb"), clock, ...options });
  const same: Partial<RedRow> = { service: "s", role: "server", peer: null, status: "200", queue_counts: [], first_byte_counts: [] };
  const row = (more: Partial<RedRow>): RedRow =>
    redRow(seededRandom(1), clock.wall * 1_000, { ...same, queue_lo: 0, first_byte_lo: 0, ...more });
  await createSender(() => colony)("a", "e", [
    row({ duration_lo: Number.MAX_SAFE_INTEGER, duration_counts: [1] }),
    row({ duration_lo: -Number.MAX_SAFE_INTEGER, duration_counts: [1] }),
    row({ duration_lo: 5, duration_counts: [4_294_967_295] }),
    row({ duration_lo: 3, duration_counts: [1, 0, 4_294_967_295, 2] }),
  ]);
  await colony.rollup();
  expect(await colony.query("SELECT duration_lo, duration_counts, queue_lo, queue_counts FROM red_1m")).toEqual([
    { duration_lo: 3, duration_counts: [1, 0, 8_589_934_590, 2], queue_lo: 0, queue_counts: [] },
  ]);
});

test("rollupColumns() rejects a histogram without its columns", () => {
  const { rollup: _rollup, ...plain } = red;
  const wrong = defineSignal({
    ...plain,
    columns: { x_lo: "text", x_counts: "uints" },
    rollup: { keys: [], measures: {}, histograms: ["x"] },
  });
  expect(() => rollupColumns(wrong as unknown as Signal)).toThrow("consists of");
});
