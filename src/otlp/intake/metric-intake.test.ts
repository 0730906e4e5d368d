import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { MetricsRegistry } from "../../base/metrics.ts";
import { openAgentStore } from "../../store/agent/index.ts";
import { openEngine, type Row } from "../../store/engine/index.ts";
import { type Columns, type RowOf, type Signal, signals } from "../../store/signals/index.ts";
import type { MetricPoint } from "../decode/metric-point.ts";
import { metricRowOf, seriesOf } from "../decode/metric-rows.ts";
import { MetricIntake } from "./metric-intake.ts";
import { addMetricIntakeMetrics } from "./otlp-metrics.ts";

const nowMs = Date.UTC(2026, 0, 1);
const pointOf = (over: Partial<MetricPoint> = {}): MetricPoint => ({
  ...{ service: "api", serviceVersion: "1.2", serviceInstance: "", environment: "", hostName: "", resource: '{"service.name":"api"}' },
  ...{ scopeName: "s", scopeVersion: "", name: "requests", description: "how many", unit: "1", kind: "sum", temporality: "delta" },
  ...{ isMonotonic: true, attributes: "{}", startTimeUs: 0, timeUs: nowMs * 1_000, hasNoValue: false, exemplars: [] },
  ...(over.kind === undefined || over.kind === "sum" || over.kind === "gauge" ? { value: 1 } : {}),
  ...over,
});

class Sink {
  readonly rows = new Map<string, Record<string, unknown>[]>();
  readonly batches: number[] = [];
  async append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]) {
    this.batches.push(rows.length);
    this.rows.set(signal.name, [...(this.rows.get(signal.name) ?? []), ...rows]);
    return { firstSeq: 1, lastSeq: 1 };
  }
}

function testIntake(more: { maxSeriesPerService?: number; maxSeries?: number } = {}) {
  const sink = new Sink();
  const clock = { wall: nowMs, mono: 0, wallMs: () => clock.wall, monotonicMs: () => clock.mono };
  return { sink, clock, intake: new MetricIntake({ store: sink, clock, ...more }) };
}

describe("metricRowOf()", () => {
  it.each<[string, Partial<MetricPoint>, Record<string, unknown>]>([
    [
      "a sum",
      { value: 0.1 },
      { value: 0.1, special: null, temporality: "delta", is_monotonic: true, start_time: null, service_instance: null },
    ],
    ["a gauge of 2^60", { kind: "gauge", value: 2 ** 60, temporality: "unspecified" }, { value: 2 ** 60, temporality: null }],
    ["NaN", { kind: "gauge", value: Number.NaN }, { value: null, special: "nan" }],
    ["infinities", { kind: "gauge", value: Number.NEGATIVE_INFINITY }, { value: null, special: "-inf" }],
    ["the end of a series", { hasNoValue: true }, { value: null, special: "none" }],
    [
      "a histogram with counts beyond 32 bits",
      { kind: "histogram", count: 2 ** 40, sum: 7.5, min: 0.25, max: 9, bounds: [0.1, 1], counts: [2 ** 40, 0, 0], startTimeUs: 5 },
      { count: 2 ** 40, sum: 7.5, min: 0.25, max: 9, bounds: "[0.1,1]", counts: "[1099511627776,0,0]", start_time: 5 },
    ],
    [
      "a histogram with a bound at infinity",
      { kind: "histogram", count: 6, bounds: [1, Number.POSITIVE_INFINITY], counts: [1, 2, 3] },
      { bounds: "[1]", counts: "[1,5]", sum: null },
    ],
    [
      "an exponential histogram",
      { kind: "exponential_histogram", count: 4, scale: 3, zeroCount: 1, positive: { offset: -2, counts: [1, 0, 2] } },
      { scale: 3, zero_count: 1, zero_threshold: 0, positive_offset: -2, positive_counts: "[1,0,2]", negative_counts: "[]" },
    ],
    [
      "a summary",
      { kind: "summary", count: 2, sum: 3, quantiles: [{ quantile: 0.5, value: 1.5 }] },
      { count: 2, quantiles: "[[0.5,1.5]]" },
    ],
  ])("keeps %s", (_what, over, wanted) => {
    expect(metricRowOf(pointOf(over), "s", 1)).toMatchObject(wanted);
  });

  it.each<[string, Partial<MetricPoint>]>([
    ["a count beyond 2^53", { kind: "histogram", count: 2 ** 60, bounds: [], counts: [1] }],
    ["a bound that is not a number", { kind: "histogram", count: 1, bounds: [Number.NaN], counts: [1, 0] }],
    ["an unsupported scale", { kind: "exponential_histogram", count: 1, scale: 1_000 }],
  ])("rejects %s", (_what, over) => {
    expect(metricRowOf(pointOf(over), "s", 1)).toBeUndefined();
  });
});

describe("seriesOf()", () => {
  it("distinguishes series by all fields except their values", () => {
    const base = seriesOf(pointOf());
    expect(base).toMatch(/^[0-9a-f]{16}$/);
    expect(seriesOf(pointOf({ value: 9, timeUs: 1, startTimeUs: 2, description: "other" }))).toBe(base);
    for (const over of [
      { attributes: '{"a":1}' },
      { resource: "{}" },
      { unit: "s" },
      { name: "x" },
      { kind: "gauge" as const },
      { isMonotonic: false },
    ])
      expect(seriesOf(pointOf(over))).not.toBe(base);
  });
});

describe("addMetricIntakeMetrics()", () => {
  it("reports series, points and drops", async () => {
    const registry = new MetricsRegistry();
    addMetricIntakeMetrics(registry, () => ({ points: 7, series: 3, overSeries: 2, unusable: 1 }));
    const text = await registry.text();
    for (const line of ["coral_metric_series 3", "coral_metric_points_total 7", "coral_metric_points_over_series_total 2"])
      expect(text).toContain(line);
  });
});

describe("MetricIntake", () => {
  it("stores points in batches, and writes a series' description every three hours", async () => {
    const { sink, clock, intake } = testIntake();
    const points = Array.from({ length: 4_500 }, (_, index) => pointOf({ attributes: `{"i":${index % 10}}` }));
    expect(await intake.store(points)).toEqual({ rejected: 0, message: "" });
    expect(sink.rows.get("metric_point")).toHaveLength(4_500);
    expect(Math.max(...sink.batches)).toBe(2_000);
    expect(sink.rows.get("metric_series")).toHaveLength(10);
    sink.rows.clear();
    await intake.store([pointOf({ attributes: '{"i":3}' })]);
    expect(sink.rows.has("metric_series")).toBe(false);
    clock.mono += 3 * 3_600_000;
    await intake.store([pointOf({ attributes: '{"i":3}' })]);
    expect(sink.rows.get("metric_series")).toMatchObject([
      { description: "how many", resource: '{"service.name":"api"}', scope_name: "s" },
    ]);
  });

  it("bounds series per service and in total, and reports what was dropped", async () => {
    const { sink, clock, intake } = testIntake({ maxSeriesPerService: 3, maxSeries: 4 });
    const reply = await intake.store(Array.from({ length: 10 }, (_, index) => pointOf({ attributes: `{"i":${index}}` })));
    expect(reply).toEqual({ rejected: 7, message: "the service has too many series; use fewer attributes" });
    expect((await intake.store([pointOf({ service: "b" }), pointOf({ service: "c" }), pointOf({ attributes: '{"i":0}' })])).rejected).toBe(
      1,
    );
    expect(intake.counts).toMatchObject({ points: 5, series: 4, overSeries: 8 });
    clock.mono += 60_000;
    await intake.reportLosses();
    expect(sink.rows.get("metric_loss")).toMatchObject([
      { service: "api", loss: "series-full", count: 7, window_ms: 60_000 },
      { service: "c", loss: "series-full", count: 1 },
    ]);
    await intake.reportLosses();
    expect(sink.rows.get("metric_loss")).toHaveLength(2);
    // Series without points for an hour are evicted.
    clock.mono += 2 * 3_600_000;
    expect((await intake.store([pointOf({ attributes: '{"i":9}' })])).rejected).toBe(0);
  });

  it("rejects points from the future", async () => {
    const { intake } = testIntake();
    expect((await intake.store([pointOf({ timeUs: (nowMs + 2 * 3_600_000) * 1_000 }), pointOf()])).rejected).toBe(1);
    expect(intake.counts.unusable).toBe(1);
  });

  it("writes rows that an agent's store reads back exactly", async () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-metrics-"));
    const clock = { wallMs: () => nowMs, monotonicMs: () => 5 };
    const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 64 * 1024 ** 2, threads: 1, log: silentLogger });
    const store = await openAgentStore(engine, {
      file: join(directory, "a.duckdb"),
      signals,
      maxBytes: 1024 ** 3,
      clock,
      log: silentLogger,
    });
    try {
      const histogram = pointOf({
        kind: "histogram",
        count: 3,
        sum: 0.3,
        bounds: [0.1],
        counts: [3, 0],
        startTimeUs: (nowMs - 1_000) * 1_000,
      });
      await new MetricIntake({ store, clock }).store([pointOf({ value: 0.1 + 0.2 }), histogram]);
      const rows: Row[] = await store.query(
        "SELECT value, count, sum, CAST(counts AS UBIGINT[]) AS counts, CAST(bounds AS DOUBLE[]) AS bounds, time, start_time FROM metric_point ORDER BY seq",
      );
      expect(rows[0]).toMatchObject({ value: 0.30000000000000004, count: null, time: nowMs * 1_000 });
      expect(rows[1]).toMatchObject({ count: 3, sum: 0.3, counts: [3, 0], bounds: [0.1], start_time: (nowMs - 1_000) * 1_000 });
    } finally {
      await store.close();
      await engine.close();
      rmSync(directory, { recursive: true });
    }
  });
});
