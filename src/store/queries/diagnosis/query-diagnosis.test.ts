import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../../base/log.ts";
import { requestMeasures } from "../../../model/diagnosis.ts";
import { type ColonyStore, openColonyStore } from "../../colony/colony-store.ts";
import type { Engine } from "../../engine/engine.ts";
import { derivedSignals, signals } from "../../signals/signal-list.ts";
import { TestClock, temporaryFolder, testEngine } from "../../store.fixture.ts";
import { queryDatabaseTraffic } from "./query-database-traffic.ts";
import { queryDiagnosis } from "./query-diagnosis.ts";
import { queryOnset } from "./query-onset.ts";

const minuteMs = 60_000;
const endMs = Date.UTC(2026, 0, 1, 12);
const onsetMs = endMs - 5 * minuteMs;
const update = "UPDATE stock SET units = ?";
const folder = temporaryFolder();
let engine: Engine;
let store: ColonyStore;

/** `web` calls `stock`, which takes 200 ms instead of 20 ms since the onset. Both have a row every ten seconds for half an hour. */
beforeAll(async () => {
  engine = await testEngine(folder.path);
  store = await openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 64 * 1024 ** 2,
    clock: new TestClock(),
    log: silentLogger,
  });
  const at = `make_timestamp(${(endMs - 30 * minuteMs) * 1_000}) + t * INTERVAL 10 SECONDS`;
  const isSlow = `${at} >= make_timestamp(${onsetMs * 1_000})`;
  const row = (
    service: string,
    role: string,
    peer: string,
    route: string,
    [protocol, method, port] = ["http", "GET", "80"],
    slowUs = 200_000,
  ): string =>
    `SELECT 1, 1, ${at}, t, ${at}, 0, '${service}', '${role}', '${protocol}', false, ${port}, '127.0.0.1', ${peer}, '${method}', '${route}', '200', false, 10000, 10,
       0, 0, 10 * CASE WHEN ${isSlow} THEN ${slowUs} ELSE 20000 + (t % 3) * 500 END, 0, 0, 0, [], 0, [], 0, [] FROM range(180) r(t)`;
  await store.write(async (transaction) => {
    const rows = [
      row("web", "server", "NULL", "/buy"),
      row("web", "client", "'stock'", "/reserve"),
      row("stock", "server", "NULL", "/reserve"),
      row("db", "server", "'web'", update, ["postgres", "UPDATE", "5432"]),
      row("web", "client", "'db'", update, ["postgres", "UPDATE", "5432"], 240_000),
    ];
    for (const sql of [...rows, row("web", "client", "'api.example.com'", "/pay")]) await transaction.run(`INSERT INTO raw.red ${sql}`);
    // `web` holds two connections to the database. A third opens at the onset.
    const opened = (port: number, firstMs: number): string =>
      `SELECT 1, 1, make_timestamp(${endMs * 1_000}), ${port}, make_timestamp(${firstMs * 1_000}), 0, 'client', 'web', 1, 1, NULL, NULL, 'tcp', '127.0.0.1', ${port}, '127.0.0.1', 5432,
         'open', make_timestamp(${firstMs * 1_000}), make_timestamp(${endMs * 1_000}), 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL`;
    for (const [port, firstMs] of [
      [50_001, endMs - 40 * minuteMs],
      [50_002, endMs - 40 * minuteMs],
      [50_003, onsetMs],
    ] as const)
      await transaction.run(`INSERT INTO raw.connection ${opened(port, firstMs)}`);
    await transaction.run(
      `INSERT INTO raw.metric_point (source, ingest, stored_at, seq, "time", mono_ms, service, name, unit, kind, is_monotonic, temporality, attributes, series, value)
       SELECT 1, 1, ${at}, t, ${at}, 0, 'stock', 'jobs.done', '1', 'sum', true, 'cumulative', '{}', 'aa', t * 20 FROM range(180) r(t)`,
    );
  });
});

afterAll(async () => {
  await store.close();
  await engine.close();
  folder[Symbol.dispose]();
});

describe("queryOnset()", () => {
  it("finds the half minute in which requests became slow", async () => {
    const { onsetMs: found } = await queryOnset(store, { untilMs: endMs });
    expect(found).toBe(onsetMs);
  });

  it("finds no onset before it", async () => {
    expect((await queryOnset(store, { untilMs: onsetMs })).onsetMs).toBeNull();
  });
});

describe("queryDiagnosis()", () => {
  const times = {
    before: [{ fromMs: endMs - 30 * minuteMs, untilMs: onsetMs - minuteMs }],
    after: { fromMs: onsetMs, untilMs: endMs },
  };

  it("compares requests by route in both periods", async () => {
    const { measures, calls, externals } = await queryDiagnosis(store, times);
    const slow = measures.find(({ service, name }) => service === "stock" && name === requestMeasures.duration);
    expect(slow).toMatchObject({ subject: "GET /reserve", kind: "latency", after: { median: 200_000, count: 10 } });
    expect(slow?.before.median).toBeCloseTo(20_500, -2);
    expect(calls).toContainEqual({ caller: "web", callee: "stock" });
    expect(externals).toEqual(["api.example.com"]);
  });

  it("names a statement once, without its verb as method", async () => {
    const { measures } = await queryDiagnosis(store, times);
    const subjects = measures.filter(({ service, subject }) => service === "db" && subject !== "").map(({ subject }) => subject);
    expect([...new Set(subjects)]).toEqual([update]);
    const { statements } = await queryDatabaseTraffic(store, times);
    expect(statements.map(({ service, statement }) => [service, statement])).toEqual([["db", update]]);
  });

  it("counts the connections that a caller holds to its database", async () => {
    const { pools } = await queryDatabaseTraffic(store, times);
    expect(pools).toMatchObject([{ caller: "web", service: "db", port: 5432, openBefore: 2, openAfter: { least: 3, most: 3 } }]);
  });

  it("tells what calls take on the way from what their callee takes, where both ends are seen", async () => {
    const { measures } = await queryDiagnosis(store, times);
    const outside = measures.filter(({ name }) => name === requestMeasures.outside);
    expect(outside).toMatchObject([{ service: "web", subject: "db", before: { median: 0 }, after: { count: 10, median: 40_000 } }]);
  });

  it("reads a counter as its rate", async () => {
    const { measures } = await queryDiagnosis(store, times);
    expect(measures.find(({ name }) => name === "jobs.done")).toMatchObject({ before: { median: 2 }, after: { median: 2 } });
  });
});
