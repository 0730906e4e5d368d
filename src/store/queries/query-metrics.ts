/** One metric over time, as rows with totals, rates, percentiles and a series of steps. */

import type { MetricFacts, MetricRequest, MetricRowFact } from "../../model/metrics.ts";
import type { Resolved } from "../../model/services.ts";
import type { Queryable } from "../tables/queryable.ts";
import type { PointSource } from "./metrics/choose-points.ts";
import { addDistributions, type Distribution, quantileOf, scaleDistribution } from "./metrics/distribution.ts";
import { distributionIncrements, type Increment, shareWithin, valueIncrements } from "./metrics/increments.ts";
import { attributeText, loadSeries, type MetricSeriesPoints } from "./metrics/load-series.ts";
import { heldUs, sumOverTime } from "./metrics/sum-over-time.ts";
import { Turn } from "./metrics/turn.ts";

export interface MetricQuery extends Resolved<MetricRequest> {
  nowMs: number;
  /** The table to read. Default: points as they were sent. */
  points?: PointSource;
}

/** Limit on points read for one answer. */
const maxPointsRead = 500_000;
/** How far before the window the base point of a counter may be. */
const lookBackMs = 5 * 60_000;
const niceStepsMs = [1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000].concat(
  [2, 4, 6, 12, 24, 48, 168].map((hours) => hours * 3_600_000),
);

export async function queryMetric(store: Queryable, query: MetricQuery): Promise<MetricFacts> {
  const window = windowOf(query);
  const series = await loadSeries(store, {
    names: [query.name],
    ...(query.service === undefined ? {} : { service: query.service }),
    ...(query.agentIds === undefined ? {} : { agentIds: query.agentIds }),
    startUs: window.readFromUs,
    endUs: window.endUs,
    maxPoints: maxPointsRead,
    ...(query.points && { points: query.points }),
  });
  const groups = groupSeries(series, query.by);
  let unmergedSeries = 0;
  const rows: MetricRowFact[] = [];
  const turn = new Turn();
  for (const group of groups.values()) {
    await turn.yield();
    const made = rowOf(group, window);
    if (made === undefined) continue;
    unmergedSeries += made.unmerged;
    rows.push(made.row);
  }
  rows.sort((a, b) => weightOf(b) - weightOf(a) || compareText(a.service, b.service) || compareText(a.group ?? "", b.group ?? ""));
  return {
    rows: rows.slice(0, query.limit),
    total: rows.length,
    startMs: window.startUs / 1_000,
    stepMs: window.stepUs / 1_000,
    unmergedSeries,
  };
}

interface Window {
  startUs: number;
  endUs: number;
  stepUs: number;
  steps: number;
  /** Points are read from this time on. */
  readFromUs: number;
}

/** Length of one step of the answer, milliseconds. */
export function metricStepMs(query: Pick<MetricQuery, "sinceMs" | "nowMs" | "stepMs" | "maxPoints">): number {
  return windowOf(query).stepUs / 1_000;
}

function windowOf({ sinceMs, nowMs, stepMs, maxPoints, points }: Omit<MetricQuery, "name" | "limit">): Window {
  const wanted = Math.max(1, maxPoints);
  const chosen =
    stepMs ?? niceStepsMs.find((step) => Math.ceil(sinceMs / step) + 1 <= wanted) ?? Math.ceil(sinceMs / Math.max(1, wanted - 1));
  const step = maxPoints === 0 ? Math.max(1, Math.ceil(sinceMs)) : chosen;
  const startMs = maxPoints === 0 ? nowMs - sinceMs : Math.floor((nowMs - sinceMs) / step) * step;
  const steps = Math.max(1, Math.ceil((nowMs - startMs) / step));
  return {
    startUs: startMs * 1_000,
    endUs: Math.floor(nowMs * 1_000),
    stepUs: step * 1_000,
    steps: maxPoints === 0 ? 0 : steps,
    readFromUs: (startMs - Math.max(lookBackMs, 2 * (points?.stepMs ?? 0))) * 1_000,
  };
}

interface Group {
  service: string;
  group: string | null;
  series: MetricSeriesPoints[];
}

/** Kinds and units are never mixed: one name in seconds and in milliseconds gives two rows. */
function groupSeries(series: readonly MetricSeriesPoints[], by: string | undefined): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const each of series) {
    const group = by === undefined ? null : groupText(each, by);
    const service = by === undefined || by === "service" ? each.service : "";
    const key = JSON.stringify([service, group, each.unit, each.kind, each.isMonotonic]);
    const found = groups.get(key);
    if (found) found.series.push(each);
    else groups.set(key, { service, group, series: [each] });
  }
  // Names the service if all series of a group have the same one.
  for (const group of groups.values()) {
    const names = new Set(group.series.map((each) => each.service));
    if (names.size === 1) group.service = group.series[0]?.service ?? "";
  }
  return groups;
}

function groupText(series: MetricSeriesPoints, by: string): string | null {
  const own = attributeText(series, by);
  if (own !== null) return own;
  switch (by) {
    case "service":
      return series.service;
    case "instance":
      return series.instance;
    case "agent":
      return series.agentId;
    default:
      return null;
  }
}

function rowOf({ service, group, series }: Group, window: Window): { row: MetricRowFact; unmerged: number } | undefined {
  const [first] = series;
  if (first === undefined) return undefined;
  const isCounter = first.kind === "sum" && first.isMonotonic;
  const base: MetricRowFact = {
    service,
    group,
    unit: first.unit,
    kind: first.kind,
    isCounter,
    series: series.length,
    rate: null,
    total: null,
    last: null,
    mean: null,
    min: null,
    max: null,
    p50: null,
    p95: null,
    p99: null,
    points: [],
    ratePoints: [],
  };
  if (first.kind === "gauge" || (first.kind === "sum" && !isCounter && first.temporality !== "delta"))
    return gaugeRow(base, series, window);
  if (first.kind === "sum") return counterRow(base, series, window);
  return histogramRow(base, series, window);
}

function gaugeRow(base: MetricRowFact, series: readonly MetricSeriesPoints[], window: Window) {
  if (base.kind === "sum" && series.length > 1) {
    const sum = sumOverTime(series, window);
    return sum.mean === null ? undefined : { unmerged: 0, row: { ...base, ...sum } };
  }
  const sums = new Array<number>(window.steps).fill(0);
  const counts = new Array<number>(window.steps).fill(0);
  let all = 0;
  let allCount = 0;
  const lasts: { value: number; timeUs: number; untilUs: number }[] = [];
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const { points } of series) {
    const inStep = new Map<number, { sum: number; count: number }>();
    let last: { value: number; timeUs: number } | null = null;
    for (const { timeUs, value, merged } of points) {
      if (timeUs < window.startUs) continue;
      // A series that ended, or whose newest value is not finite, has no `last`.
      last = value !== null && Number.isFinite(value) ? { value, timeUs } : null;
      if (last === null) continue;
      const several = merged ?? { count: 1, sum: last.value, min: last.value, max: last.value };
      all += several.sum;
      allCount += several.count;
      min = Math.min(min, several.min);
      max = Math.max(max, several.max);
      const step = Math.floor((timeUs - window.startUs) / window.stepUs);
      const known = inStep.get(step) ?? { sum: 0, count: 0 };
      inStep.set(step, { sum: known.sum + several.sum, count: known.count + several.count });
    }
    if (last !== null) lasts.push({ ...last, untilUs: last.timeUs + heldUs(points) });
    for (const [step, { sum, count }] of inStep) {
      if (step >= window.steps) continue;
      sums[step] = (sums[step] ?? 0) + sum / count;
      counts[step] = (counts[step] ?? 0) + 1;
    }
  }
  if (allCount === 0) return undefined;
  const newestUs = lasts.reduce((newest, { timeUs }) => Math.max(newest, timeUs), 0);
  const current = lasts.filter(({ untilUs }) => untilUs >= newestUs);
  const last = current.length === 0 ? null : current.reduce((sum, { value }) => sum + value, 0) / current.length;
  const points = sums.map((sum, step) => (counts[step] ? sum / (counts[step] ?? 1) : null));
  return { unmerged: 0, row: { ...base, last, mean: all / allCount, min, max, points } };
}

function counterRow(base: MetricRowFact, series: readonly MetricSeriesPoints[], window: Window) {
  const covered = new Coverage(window);
  const steps = new Array<number>(window.steps).fill(0);
  let total = 0;
  for (const each of series) {
    for (const increment of valueIncrements(each, window.readFromUs)) {
      if (!Number.isFinite(increment.amount)) continue;
      total += increment.amount * shareWithin(increment, window.startUs, window.endUs);
      covered.add(increment, each.temporality === "delta");
      forSteps(increment, window, (step, share) => {
        steps[step] = (steps[step] ?? 0) + increment.amount * share;
      });
    }
  }
  if (covered.isEmpty) return undefined;
  const points = steps.map((amount, step) => covered.rate(amount, step));
  return { unmerged: 0, row: { ...base, total, rate: covered.rate(total), points } };
}

function histogramRow(base: MetricRowFact, series: readonly MetricSeriesPoints[], window: Window) {
  const covered = new Coverage(window);
  let all: Distribution | null = null;
  const steps = new Array<Distribution | null>(window.steps).fill(null);
  let unmerged = 0;
  for (const each of series) {
    let isMerged = true;
    const put = (into: Distribution | null, increment: Increment<Distribution>, share: number): Distribution | null => {
      const part = share === 1 ? increment.amount : scaleDistribution(increment.amount, share);
      if (into === null) return part;
      const sum = addDistributions(into, part);
      if (sum === null) isMerged = false;
      return sum ?? into;
    };
    for (const increment of distributionIncrements(each, window.readFromUs)) {
      const share = shareWithin(increment, window.startUs, window.endUs);
      if (share > 0) all = put(all, increment, share);
      covered.add(increment, each.temporality === "delta");
      forSteps(increment, window, (step, part) => {
        steps[step] = put(steps[step] ?? null, increment, part);
      });
    }
    if (!isMerged) unmerged++;
  }
  if (all === null || covered.isEmpty) return undefined;
  const found: Distribution = all;
  const isSummary = base.kind === "summary";
  const quantile = (distribution: Distribution | null, share: number): number | null =>
    distribution === null || isSummary ? null : quantileOf(distribution, share);
  const summary = isSummary ? summaryQuantiles(series) : null;
  return {
    unmerged,
    row: {
      ...base,
      total: found.count,
      rate: covered.rate(found.count),
      mean: found.sum !== null && found.count > 0 ? found.sum / found.count : null,
      // Min and max of cumulative points cover all time since the start, not the window.
      min: series.every(({ temporality }) => temporality === "delta") ? found.min : null,
      max: series.every(({ temporality }) => temporality === "delta") ? found.max : null,
      p50: summary ? (summary.get(0.5) ?? null) : quantile(found, 0.5),
      p95: summary ? (summary.get(0.95) ?? null) : quantile(found, 0.95),
      p99: summary ? (summary.get(0.99) ?? null) : quantile(found, 0.99),
      points: steps.map((distribution) => quantile(distribution, 0.95)),
      ratePoints: steps.map((distribution, step) => covered.rate(distribution?.count ?? 0, step)),
    },
  };
}

/** Quantiles computed by the sender cannot be merged: they are returned only for a single series, as last sent. */
function summaryQuantiles(series: readonly MetricSeriesPoints[]): Map<number, number | null> {
  const quantiles = series.length === 1 ? series[0]?.points.at(-1)?.quantiles : undefined;
  return new Map(quantiles ?? []);
}

/** Shortest time that a rate is computed over. */
const minRateUs = 1_000_000;

/** The observed part of the window. Rates divide by it, so that unobserved time does not lower them. */
class Coverage {
  readonly #window: Window;
  #fromUs = Number.POSITIVE_INFINITY;
  #toUs = Number.NEGATIVE_INFINITY;

  constructor(window: Window) {
    this.#window = window;
  }

  get isEmpty(): boolean {
    return this.#toUs < this.#fromUs;
  }

  /** A sender of deltas sends nothing while nothing happens: after its first point, silence means zero. */
  add({ fromUs, toUs }: Increment<unknown>, isDelta: boolean): void {
    const { startUs, endUs } = this.#window;
    if (toUs < startUs) {
      if (isDelta) this.#fromUs = startUs;
      if (isDelta) this.#toUs = endUs;
      return;
    }
    this.#fromUs = Math.min(this.#fromUs, Math.max(startUs, fromUs));
    this.#toUs = Math.max(this.#toUs, isDelta ? endUs : Math.min(endUs, toUs));
  }

  /** Per second over the whole window or one step; null without coverage. */
  rate(amount: number, step?: number): number | null {
    const { startUs, stepUs } = this.#window;
    const fromUs = step === undefined ? this.#fromUs : Math.max(this.#fromUs, startUs + step * stepUs);
    const toUs = step === undefined ? this.#toUs : Math.min(this.#toUs, startUs + (step + 1) * stepUs);
    // A program that lived for 3 ms and counted 9 did not do 3,000 things a second.
    return toUs > fromUs ? (amount * 1_000_000) / Math.max(toUs - fromUs, minRateUs) : null;
  }
}

function forSteps(increment: Increment<unknown>, { startUs, stepUs, steps }: Window, visit: (step: number, share: number) => void): void {
  // An increment without duration on a step boundary belongs to the step that ends there.
  const firstUs = Math.min(increment.fromUs, increment.toUs - 1);
  const first = Math.max(0, Math.floor((firstUs - startUs) / stepUs));
  const last = Math.min(steps - 1, Math.floor((increment.toUs - startUs) / stepUs));
  for (let step = first; step <= last; step++) {
    const share = shareWithin(increment, startUs + step * stepUs, startUs + (step + 1) * stepUs);
    if (share > 0) visit(step, share);
  }
}

/** Sorts largest first. */
function weightOf({ rate, last }: MetricRowFact): number {
  return Math.abs(rate ?? last ?? 0);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
