import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { choosePoints, type PointSource, sentPoints } from "../queries/metrics/choose-points.ts";
import { queryMetricNames } from "../queries/query-metric-names.ts";
import { type MetricQuery, queryMetric } from "../queries/query-metrics.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "../queries/stored-hosts.fixture.ts";
import { seededRandom, TestClock } from "../store.fixture.ts";

type Point = NonNullable<SignalRows["metricPoint"]>[number];

const minuteMs = 60_000;
const clock = new TestClock();
const nowMs = clock.wall;
const startMs = nowMs - 60 * minuteMs;
let hosts: StoredHosts;

const base = { service: "api", unit: "1", attributes: "{}", is_monotonic: false };
/** One point every 10 s for an hour. `valueOf` gets the point's index and the seconds since the start. */
function points(name: string, values: Partial<Point>, valueOf: (index: number) => Partial<Point>): Point[] {
  return Array.from(
    { length: 360 },
    (_, index): Point => ({ ...base, name, series: name, atMs: startMs + (index + 1) * 10_000, ...values, ...valueOf(index) }) as Point,
  );
}

const total = { kind: "sum", temporality: "cumulative", is_monotonic: true };
const random = seededRandom(3);
const levels = Array.from({ length: 360 }, () => Math.floor(random() * 1_000));
const bounds = "[0.1,1]";
const counted = Array.from({ length: 360 }, () => [random(), random(), random()].map((share) => Math.floor(share * 10)));
const upTo = (index: number): number[] =>
  counted.slice(0, index + 1).reduce((sums, row) => sums.map((sum, at) => sum + (row[at] ?? 0)), [0, 0, 0]);
const sumOf = (row: readonly number[]): number => row.reduce((sum, count) => sum + count, 0);

const all = [
  ...points("steady", total, (index) => ({ value: (index + 1) * 50, start_time: startMs * 1_000 })),
  ...points("unstarted", total, (index) => ({ value: 700 + index * 20 })),
  // Restarts after 155 s, and drops to zero after 1,000 s without a new start time.
  ...points("restarting", total, (index) => ({
    value: index < 15 ? (index + 1) * 10 : (index - 14) * 10,
    start_time: (index < 15 ? startMs : startMs + 150_000) * 1_000,
  })),
  ...points("falling", total, (index) => ({ value: (index % 100) * 10 + 10 })),
  ...points("deltas", { ...total, temporality: "delta" }, (index) => ({
    value: levels[index] ?? 0,
    start_time: (startMs + index * 10_000) * 1_000,
  })),
  ...points("level", { kind: "gauge" }, (index) => ({ value: levels[index] ?? 0 })),
  ...points("buckets", { kind: "histogram", temporality: "cumulative", bounds }, (index) => ({
    counts: JSON.stringify(upTo(index)),
    count: sumOf(upTo(index)),
    sum: index,
    start_time: startMs * 1_000,
  })),
  ...points("delta.buckets", { kind: "histogram", temporality: "delta", bounds }, (index) => ({
    counts: JSON.stringify(counted[index]),
    count: sumOf(counted[index] ?? []),
    sum: 1,
    start_time: (startMs + index * 10_000) * 1_000,
  })),
  ...points("powers", { kind: "exponential_histogram", temporality: "delta" }, (index) => ({
    ...{ scale: 2, zero_count: 1, zero_threshold: 0, positive_offset: (index % 5) - 3, positive_counts: "[1,2]", sum: 9 },
    ...(index % 3 === 0
      ? { negative_offset: index % 7, negative_counts: "[3]", count: 7 }
      : { negative_offset: 0, negative_counts: "[]", count: 4 }),
    start_time: (startMs + index * 10_000) * 1_000,
  })),
  // Buckets of different scales, or far apart, cannot be merged into one row.
  ...points("scales", { kind: "exponential_histogram", temporality: "delta" }, (index) => ({
    ...{ scale: index % 2, zero_count: 0, zero_threshold: 0, count: 3, sum: 9 },
    ...{ positive_offset: index % 4 < 2 ? 900 : -900, positive_counts: `[${1 + (index % 2)},${2 - (index % 2)}]` },
    start_time: (startMs + index * 10_000) * 1_000,
  })),
];

const coarse = (name: "metric_point_1m" | "metric_point_10m", stepMs: number): PointSource => ({ sql: name, stepMs });
const sources = [coarse("metric_point_1m", minuteMs), coarse("metric_point_10m", 10 * minuteMs)];
const ask = async (name: string, source: PointSource, more: Partial<MetricQuery> = {}) =>
  (await queryMetric(hosts.store, { name, sinceMs: 40 * minuteMs, nowMs, maxPoints: 0, limit: 10, points: source, ...more })).rows[0];

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  // In batches as pulls deliver them, with a roll-up after each.
  const inOrder = all.toSorted((a, b) => a.atMs - b.atMs);
  for (let at = 0; at < inOrder.length; at += 700) {
    await hosts.add("a", { metricPoint: inOrder.slice(at, at + 700) });
    clock.monotonic += 11 * minuteMs;
    await hosts.store.rollup();
  }
});
afterAll(() => hosts[Symbol.asyncDispose]());

describe("rolled-up points", () => {
  it.each(["steady", "unstarted", "restarting", "falling", "deltas", "level", "buckets", "delta.buckets", "powers", "scales"])(
    "%s: give the same results for whole windows",
    async (name) => {
      const sent = await ask(name, sentPoints);
      expect(sent).toBeDefined();
      for (const source of sources) {
        const merged = await ask(name, source);
        for (const key of ["total", "rate", "last", "mean", "min", "max", "p50", "p95", "p99"] as const) {
          const [is, was] = [merged?.[key] ?? null, sent?.[key] ?? null];
          if (was === null || is === null) expect([key, is]).toEqual([key, was]);
          else
            expect(Math.abs(is - was) / Math.max(1, Math.abs(was)), `${key} of ${source.sql}: ${is} instead of ${was}`).toBeLessThan(1e-9);
        }
      }
    },
  );

  it("are far fewer", async () => {
    const rows = await hosts.store.query(
      `SELECT name, (SELECT count(*) FROM metric_point_1m m WHERE m.name = p.name) AS fine, (SELECT count(*) FROM metric_point_10m m WHERE m.name = p.name) AS rough
       FROM metric_point p GROUP BY name ORDER BY name`,
    );
    for (const { name, fine, rough } of rows) {
      const kinds = name === "scales" ? 4 : 1;
      // A batch may end within a minute, which then has two rows.
      expect(Number(fine), String(name)).toBeLessThan(75 * kinds);
      expect(Number(rough), String(name)).toBeLessThan(20 * kinds);
    }
  });

  it("keep the time series of a gauge as means", async () => {
    const parts = { maxPoints: 50, stepMs: 10 * minuteMs };
    const sent = await ask("level", sentPoints, parts);
    const merged = await ask("level", sources[0] as PointSource, parts);
    expect(merged?.points.map((value) => value?.toFixed(6))).toEqual(sent?.points.map((value) => value?.toFixed(6)));
  });

  it("are used for long windows, and where raw points are gone", async () => {
    const chosen = async (hours: number, finestMs = Number.POSITIVE_INFINITY) =>
      (await choosePoints(hosts.store, { startMs: nowMs - hours * 60 * minuteMs, endMs: nowMs, finestMs })).stepMs / minuteMs;
    expect([await chosen(1), await chosen(7), await chosen(100), await chosen(100, 30_000), await chosen(100, minuteMs)]).toEqual([
      0, 1, 10, 0, 1,
    ]);
    const source = await choosePoints(hosts.store, {
      startMs: nowMs - 100 * 60 * minuteMs,
      endMs: nowMs,
      finestMs: Number.POSITIVE_INFINITY,
    });
    const names = await queryMetricNames(hosts.store, { sinceMs: 100 * 60 * minuteMs, nowMs, limit: 100, points: source });
    expect(names.total).toBe(10);
    expect((await ask("steady", source))?.total).toBeCloseTo(12_000, 6);
    await hosts.store.write((transaction) => transaction.run("DELETE FROM raw.metric_point"));
    expect(await chosen(0.5)).toBe(1);
    expect((await ask("steady", await choosePoints(hosts.store, { startMs, endMs: nowMs, finestMs: 0 })))?.total).toBeCloseTo(12_000, 6);
  });
});
