import { describe, expect, it, vi } from "vitest";
import type { MetricNameFact, MetricRowFact } from "../../model/metrics.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { colonyOf, context } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { MetricResult } from "../schemas/metrics.ts";
import { queryMetrics } from "./query-metrics.ts";

const call = async (input: object, backend: Partial<ColonyBackend> = {}): Promise<Answer<MetricResult>> =>
  (await queryMetrics.call(colonyOf(backend), input, context)) as Answer<MetricResult>;

const nameOf = (name: string): MetricNameFact => ({
  ...{
    name,
    unit: "s",
    kind: "histogram",
    isCounter: false,
    services: ["api"],
    serviceCount: 1,
    series: 2,
    lastAt: "2026-01-01T00:00:00.000Z",
  },
});
const rowOf = (over: Partial<MetricRowFact> = {}): MetricRowFact => ({
  ...{ service: "api", group: null, unit: "s", kind: "gauge", isCounter: false, series: 1, rate: null, total: null, last: 1, mean: 1 },
  ...{ min: 1, max: 1, p50: null, p95: null, p99: null, points: [1 / 3, null], ratePoints: [] },
  ...over,
});
const factsOf = (rows: MetricRowFact[]) => ({ rows, total: rows.length, startMs: 1_767_225_600_000, stepMs: 60_000, unmergedSeries: 0 });

describe("coral_query_metrics", () => {
  it("lists metrics without a name", async () => {
    const metricNames = vi.fn<ColonyBackend["metricNames"]>(async () => ({ rows: [nameOf("took")], total: 3 }));
    const answer = await call({ service: "api", limit: 1 }, { metricNames });
    expect(answer.metrics.map(({ name }) => name)).toEqual(["took"]);
    expect(metricNames.mock.calls[0]?.[0]).toEqual({ sinceMs: 3_600_000, limit: 1, service: "api" });
    expect(answer.completeness.notes).toMatchObject([
      { kind: "limit", message: "1 of 3 metrics are shown; narrow with service or name, or raise limit" },
    ]);
    expect((await call({})).completeness.notes[0]?.message).toContain("no program sent metrics in this window");
  });

  it("shows one metric over time, and rounds only its series", async () => {
    const metric = vi.fn<ColonyBackend["metric"]>(async () => ({ ...factsOf([rowOf({ last: 1 / 3 })]), unmergedSeries: 2 }));
    const answer = await call({ name: "took", by: "route", since: "10m", step: "30s", agent: "web-1" }, { metric });
    expect(metric.mock.calls[0]?.[0]).toEqual({
      name: "took",
      by: "route",
      sinceMs: 600_000,
      stepMs: 30_000,
      maxPoints: 20,
      limit: 50,
      agentIds: ["web-1"],
    });
    expect(answer).toMatchObject({
      startAt: "2026-01-01T00:00:00.000Z",
      stepMs: 60_000,
      rows: [{ last: 1 / 3, points: [0.333333, null] }],
    });
    expect(answer.completeness.notes.map(({ kind }) => kind)).toEqual(["unavailable"]);
  });

  it("resolves the only metric whose name contains the text, else lists the candidates", async () => {
    const metric = vi.fn<ColonyBackend["metric"]>(async ({ name }) => factsOf(name === "http.took" ? [rowOf()] : []));
    const one = await call({ name: "took" }, { metric, metricNames: async () => ({ rows: [nameOf("http.took")], total: 1 }) });
    expect(one.rows).toHaveLength(1);
    const two = await call(
      { name: "took" },
      { metric, metricNames: async () => ({ rows: [nameOf("a.took"), nameOf("b.took")], total: 2 }) },
    );
    expect(two.metrics).toHaveLength(2);
    expect(two.completeness.notes.at(-1)?.message).toBe('no metric is named "took"; names that contain it: a.took, b.took');
    const early = await call(
      { name: "took" },
      { metric, metricNames: async () => ({ rows: [nameOf("took"), nameOf("b.took")], total: 2 }) },
    );
    expect(early.completeness.notes[0]?.message).toMatch(/^too few points of metric "took" in this window/);
    expect((await call({ name: "took" })).completeness.notes[0]?.message).toBe('no points of metric "took" in this window');
  });

  it("evaluates PromQL", async () => {
    const promql = vi.fn<ColonyBackend["promql"]>(async ({ stepMs }) => ({
      rows: [{ labels: { a: "b" }, points: [1, 1_794_753_012.3456, 1_234.56789, 123.456789] }],
      total: 1,
      startMs: 0,
      stepMs,
    }));
    const answer = await call({ promql: "up", since: "10m", points: 11 }, { promql });
    expect(promql.mock.calls[0]?.[0]).toEqual({ expression: "up", sinceMs: 600_000, stepMs: 60_000, limit: 50 });
    expect(answer).toMatchObject({
      stepMs: 60_000,
      series: [{ labels: { a: "b" }, points: [1, 1_794_753_012.346, 1_234.568, 123.457] }],
      completeness: { complete: true },
    });
  });

  it("notes dropped points", async () => {
    const metricLosses: ColonyBackend["metricLosses"] = async () => [
      { service: "api", loss: "series-full", count: 9 },
      { service: "web", loss: "scrape-failed", count: 2 },
    ];
    const answer = await call({ name: "x" }, { metricLosses, metric: async () => factsOf([rowOf()]) });
    expect(answer.completeness.notes.map(({ message }) => message)).toEqual([
      "9 points of api were dropped: too many series; use fewer attributes",
      "2 scrapes of web were dropped: the target did not respond",
    ]);
    expect((await call({ name: "x", service: "db" }, { metricLosses, metric: async () => factsOf([rowOf()]) })).completeness.complete).toBe(
      true,
    );
  });

  it("rejects incompatible options", async () => {
    await expect(call({ name: "a", promql: "b" })).rejects.toThrow("pass one of them");
    await expect(call({ promql: "b", by: "x" })).rejects.toThrow("put them into the expression");
    await expect(call({ name: "a", since: "7d", step: "1s" })).rejects.toThrow("use a step of at least 605s");
  });
});
