import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { seededRandom, TestClock } from "../store.fixture.ts";
import { queryPromql } from "./promql/query-promql.ts";
import { queryMetricNames } from "./query-metric-names.ts";
import { type MetricQuery, queryMetric } from "./query-metrics.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "./stored-hosts.fixture.ts";

type Point = NonNullable<SignalRows["metricPoint"]>[number];

const secondMs = 1_000;
const minuteMs = 60_000;
const clock = new TestClock();
const nowMs = clock.wall;
let hosts: StoredHosts;

const ask = (name: string, more: Partial<MetricQuery> = {}) =>
  queryMetric(hosts.store, { name, sinceMs: 10 * minuteMs, nowMs, maxPoints: 20, limit: 100, ...more });

/** A counter that rises by `perSecond`, sent every 10 s for the last 15 min. */
function counter(name: string, series: string, perSecond: number, more: Partial<Point> & { restartAtMs?: number } = {}): Point[] {
  const { restartAtMs = 0, ...values } = more;
  const startMs = nowMs - 15 * minuteMs;
  return Array.from({ length: 91 }, (_, index): Point => {
    const atMs = startMs + index * 10 * secondMs;
    const sinceMs = atMs >= restartAtMs && restartAtMs > 0 ? restartAtMs : startMs;
    const value = ((atMs - sinceMs) / secondMs) * perSecond + (sinceMs === startMs ? 1_000 : 0);
    return {
      service: "api",
      name,
      unit: "1",
      kind: "sum",
      temporality: "cumulative",
      is_monotonic: true,
      attributes: "{}",
      series,
      atMs,
      value,
      ...values,
    };
  });
}

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  const random = seededRandom(11);
  await hosts.add("a", {
    metricPoint: [
      ...counter("steady", "s1", 5, { attributes: '{"route":"/a"}' }),
      ...counter("steady", "s2", 3, { attributes: '{"route":"/b"}', restartAtMs: nowMs - 5 * minuteMs }),
      ...[
        ...counter("twins", "t", 2, { start_time: (nowMs - 90 * minuteMs) * 1_000 }),
        ...counter("twins", "t", 3, { start_time: (nowMs - 80 * minuteMs) * 1_000 }).map((point) => ({
          ...point,
          atMs: point.atMs - 10,
          value: (point.value ?? 0) + 9_000,
        })),
      ],
      ...counter("other.unit", "u1", 1, { unit: "s" }),
      ...counter("other.unit", "u2", 1, { unit: "ms" }),
      ...[0, 1, 2, 3].map(
        (index): Point => ({
          ...{
            service: "api",
            name: "delta",
            unit: "By",
            kind: "sum",
            temporality: "delta",
            is_monotonic: true,
            attributes: "{}",
            series: "d1",
          },
          ...{ atMs: nowMs - 4 * minuteMs + index * minuteMs, start_time: (nowMs - 5 * minuteMs + index * minuteMs) * 1_000, value: 600 },
        }),
      ),
      // Sent twice because the acknowledgement was lost.
      {
        ...{
          service: "api",
          name: "delta",
          unit: "By",
          kind: "sum",
          temporality: "delta",
          is_monotonic: true,
          attributes: "{}",
          series: "d1",
        },
        ...{ atMs: nowMs - 4 * minuteMs, start_time: (nowMs - 5 * minuteMs) * 1_000, value: 600 },
      },
      ...["g1", "g2"].flatMap((series, which) =>
        [1, 2, 3].map(
          (index): Point => ({
            ...{ service: which === 0 ? "api" : "web", name: "heat", unit: "Cel", kind: "gauge", attributes: "{}", series },
            ...{ atMs: nowMs - index * minuteMs, value: index * 10 + which },
          }),
        ),
      ),
      { service: "web", name: "heat", unit: "Cel", kind: "gauge", attributes: "{}", series: "g2", atMs: nowMs - 1, special: "nan" },
      ...["q1", "q2"].map(
        (series, which): Point => ({
          ...{ service: "api", name: "queue", unit: "1", kind: "sum", temporality: "cumulative", attributes: `{"n":${which}}`, series },
          ...{ atMs: nowMs - minuteMs, value: 4 + which },
        }),
      ),
    ],
  });
  await hosts.add("c", {
    metricPoint: [
      ...[10, 20, 30].flatMap((value, which) =>
        Array.from({ length: which === 2 ? 12 : 20 }, (_, index): Point => {
          const atMs = nowMs - 14 * minuteMs + index * 45 * secondMs + which * 10 * secondMs;
          const series = `busy${which}`;
          return { service: "api", name: "busy", unit: "1", kind: "sum", temporality: "cumulative", attributes: "{}", series, atMs, value };
        }),
      ),
      // The newest points arrived first.
      ...Array.from({ length: 60 }, (_, ago) =>
        Array.from({ length: 1_000 }, (_item, which): Point => {
          const common = { service: "api", name: "crowd", unit: "1", kind: "gauge", attributes: "{}" };
          return { ...common, series: `crowd${which}`, atMs: nowMs - (ago + 1) * 5 * secondMs, value: 60 - ago };
        }),
      ).flat(),
    ],
  });
  const bounds = [0.01, 0.05, 0.1, 0.5, 1];
  let totals = new Array<number>(6).fill(0);
  let sum = 0;
  const histogram: Point[] = [];
  const exponential: Point[] = [];
  for (let index = 0; index < 11; index++) {
    const values = index === 0 ? [] : Array.from({ length: 100 }, () => random());
    const added = totals.map((_count, at) => values.filter((value) => bounds.filter((bound) => value > bound).length === at).length);
    totals = totals.map((count, at) => count + added[at]!);
    sum += values.reduce((all, value) => all + value, 0);
    const atMs = nowMs - 10 * minuteMs + index * minuteMs;
    const common = { service: "api", unit: "s", attributes: "{}", atMs, bounds: JSON.stringify(bounds) };
    const count = totals.reduce((all, each) => all + each, 0);
    histogram.push({
      ...common,
      name: "took",
      kind: "histogram",
      series: "h1",
      temporality: "cumulative",
      count,
      sum,
      counts: JSON.stringify(totals),
    });
    const indexes = values.map((value) => Math.ceil(Math.log2(value) * 2 ** 4) - 1);
    const offset = Math.min(0, ...indexes);
    const counts = new Array<number>(1 - offset).fill(0);
    for (const at of indexes) counts[at - offset]! += 1;
    exponential.push({
      ...{
        ...common,
        bounds: null,
        name: "exp",
        kind: "exponential_histogram",
        series: "e1",
        temporality: "delta",
        count: values.length,
        scale: 4,
        zero_count: 0,
      },
      ...{
        positive_offset: offset,
        positive_counts: JSON.stringify(counts),
        negative_offset: 0,
        negative_counts: "[]",
        start_time: (atMs - minuteMs) * 1_000,
      },
      ...{
        sum: values.reduce((all, value) => all + value, 0),
        zero_threshold: 0,
        min: Math.min(1, ...values),
        max: Math.max(0, ...values),
      },
    });
  }
  await hosts.add("b", { metricPoint: [...histogram, ...exponential] });
});
afterAll(() => hosts[Symbol.asyncDispose]());

describe("queryMetric()", () => {
  it("counts a counter exactly, across a restart and by attribute", async () => {
    const { rows, stepMs, startMs } = await ask("steady", { by: "route" });
    expect(rows.map(({ group, service, series }) => [group, service, series])).toEqual([
      ["/a", "api", 1],
      ["/b", "api", 1],
    ]);
    expect(rows[0]!.total).toBeCloseTo(5 * 600, 6);
    expect(rows[0]!.rate).toBeCloseTo(5, 9);
    // The time between the last point and the restart was unobserved: the counter counts from the restart.
    expect(rows[1]!.total).toBeCloseTo(3 * 600 - 3 * 10, 6);
    expect(startMs % stepMs).toBe(0);
    for (const point of rows[0]!.points) expect(point).toBeCloseTo(5, 6);
    expect(rows[0]!.points.length).toBeLessThanOrEqual(20);
    const [both] = (await ask("steady")).rows;
    expect(both!.rate).toBeCloseTo((5 * 600 + 3 * 590) / 600, 6);
    expect(both!).toMatchObject({ series: 2, isCounter: true, unit: "1", last: null });
  });

  it("does not mistake two processes with one identity for restarts", async () => {
    const { rows } = await ask("twins");
    // The last 10 ms of the second process are not covered.
    expect(rows[0]!.total).toBeCloseTo(600 * 2 + 599.99 * 3, 6);
    expect(rows[0]!.rate).toBeCloseTo(5, 3);
    const { rows: series } = await queryPromql(hosts.store, {
      expression: "rate(twins[5m])",
      startMs: nowMs,
      endMs: nowMs,
      stepMs: 1,
      limit: 9,
    });
    // Nothing is known of the first 10 s.
    expect(series[0]!.points[0]).toBeGreaterThan(4.8);
    expect(series[0]!.points[0]).toBeLessThan(5.01);
  });

  it("aligns to the requested step", async () => {
    const { rows, startMs, stepMs } = await ask("steady", { stepMs: 70 * secondMs, by: "route" });
    expect(stepMs).toBe(70_000);
    expect(startMs).toBe(Math.floor((nowMs - 10 * minuteMs) / 70_000) * 70_000);
    expect(rows[0]!.points.length).toBe(Math.ceil((nowMs - startMs) / 70_000));
    for (const point of rows[0]!.points) expect(point).toBeCloseTo(5, 6);
  });

  it("adds each delta once, and reads silence between deltas as zero", async () => {
    const { rows } = await ask("delta", { stepMs: minuteMs });
    expect(rows[0]).toMatchObject({ total: 2_400, unit: "By" });
    expect(rows[0]!.rate).toBeCloseTo(2_400 / 300, 9);
    expect(rows[0]!.points.slice(-6)).toEqual([null, 10, 10, 10, 10, 0]);
  });

  it("keeps different units in separate rows", async () => {
    const { rows } = await ask("other.unit");
    expect(rows.map(({ unit, total }) => [unit, Math.round(total ?? 0)]).sort()).toEqual([
      ["ms", 600],
      ["s", 600],
    ]);
  });

  it("averages gauges and adds up-down sums", async () => {
    const { rows } = await ask("heat", { stepMs: minuteMs });
    expect(rows.find(({ service }) => service === "api")).toMatchObject({ last: 10, min: 10, max: 30, mean: 20, rate: null, total: null });
    expect(rows.find(({ service }) => service === "web")).toMatchObject({ last: null, min: 11, max: 31 });
    expect(rows.find(({ service }) => service === "api")!.points.slice(-3)).toEqual([30, 20, 10]);
    expect((await ask("queue")).rows).toMatchObject([{ last: 9, mean: 9, min: 9, max: 9, series: 2 }]);
    expect((await ask("queue", { by: "n" })).rows.map(({ group, last }) => [group, last])).toEqual([
      ["1", 5],
      ["0", 4],
    ]);
  });

  it("adds processes that report at different times, and excludes those that exited", async () => {
    const [row] = (await ask("busy", { stepMs: minuteMs })).rows;
    // Two of three processes keep sending, each at most once per step.
    expect(row).toMatchObject({ series: 3, last: 30, min: 30, max: 60 });
    expect(row!.points.slice(0, 4)).toEqual([60, 60, 60, 60]);
    expect(row!.points.slice(-3)).toEqual([30, 30, 30]);
  });

  it("reads a thousand series within a colony's memory limit", async () => {
    const { rows } = await ask("crowd");
    expect(rows).toMatchObject([{ series: 1_000, last: 60, max: 60 }]);
  });

  it.each([
    ["took", 0.5],
    ["exp", 2 ** (1 / 16) - 1],
  ])("reads percentiles from %s", async (name, tolerance) => {
    const random = seededRandom(11);
    const values = Array.from({ length: 1_000 }, () => random()).sort((a, b) => a - b);
    const [row] = (await ask(name)).rows;
    expect(row!.total).toBe(1_000);
    expect(row!.unit).toBe("s");
    expect(row!.mean).toBeCloseTo(values.reduce((sum, value) => sum + value, 0) / 1_000, 9);
    for (const [found, share] of [
      [row!.p50, 0.5],
      [row!.p95, 0.95],
      [row!.p99, 0.99],
    ] as const)
      expect(Math.abs(found! / values[share * 1_000 - 1]! - 1)).toBeLessThan(tolerance);
    expect(row!.ratePoints.at(-2)).toBeCloseTo(100 / 60, 6);
    expect(row!.max).toBe(name === "exp" ? values.at(-1) : null);
  });

  it("returns nothing for an unknown name, and filters by agent", async () => {
    expect(await ask("none")).toMatchObject({ rows: [], total: 0 });
    expect((await ask("steady", { agentIds: ["b"] })).rows).toEqual([]);
    expect((await ask("heat", { service: "web" })).rows).toHaveLength(1);
    expect((await ask("heat", { by: "agent" })).rows).toMatchObject([{ group: "a", service: "", series: 2 }]);
    expect((await ask("steady", { limit: 0 })).total).toBe(1);
    expect((await ask("steady", { maxPoints: 0 })).rows[0]).toMatchObject({ points: [] });
  });
});

describe("queryMetricNames()", () => {
  it("lists metric names", async () => {
    const { rows, total } = await queryMetricNames(hosts.store, { sinceMs: 3_600_000, nowMs, limit: 5 });
    expect(total).toBe(11);
    expect(rows.map(({ name }) => name)).toEqual(["busy", "crowd", "delta", "exp", "heat"]);
    expect(rows[4]).toEqual({
      name: "heat",
      unit: "Cel",
      kind: "gauge",
      isCounter: false,
      services: ["api", "web"],
      serviceCount: 2,
      series: 2,
      lastAt: "2025-12-31T23:59:59.999Z",
    });
    expect(
      (await queryMetricNames(hosts.store, { sinceMs: 3_600_000, nowMs, limit: 9, contains: "STEA", service: "api" })).rows,
    ).toMatchObject([{ name: "steady", series: 2 }]);
  });
});
