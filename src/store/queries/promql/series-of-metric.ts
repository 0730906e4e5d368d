/** Converts a stored series into PromQL series of cumulative values, with a zero sample at each known start. */

import {
  addDistributions,
  type Distribution,
  downscale,
  type ExponentialBuckets,
  exponentialBound,
  spansOf,
} from "../metrics/distribution.ts";
import type { MetricSeriesPoints, SeriesPoint } from "../metrics/load-series.ts";
import { type NamedPart, prometheusLabel } from "./prometheus-names.ts";
import type { Labels, PromSeries } from "./samples.ts";

export interface NamedSeries {
  name: string;
  part: NamedPart;
  series: MetricSeriesPoints;
}

/** A series whose start is after `knownFromUs` gets a zero sample at its start. Earlier starts are unknown: their data was not read. */
export function promSeriesOf({ name, part, series }: NamedSeries, knownFromUs: number): PromSeries[] {
  const labels = labelsOf(name, series);
  if (series.kind === "gauge" || series.kind === "sum") {
    const isTotal = series.kind === "sum";
    return [seriesFrom(labels, series, isTotal ? knownFromUs : null, ({ value }) => value)];
  }
  if (part === "count") return [seriesFrom(labels, series, knownFromUs, ({ distribution }) => distribution?.count ?? null)];
  if (part === "sum") return [seriesFrom(labels, series, knownFromUs, ({ distribution }) => distribution?.sum ?? null)];
  return part === "value" ? quantileSeries(labels, series) : bucketSeries(labels, series, knownFromUs);
}

function labelsOf(name: string, series: MetricSeriesPoints): Labels {
  const labels: Record<string, string> = { __name__: name, agent: series.agentId, service: series.service, job: series.service };
  if (series.instance !== null) labels["instance"] = series.instance;
  for (const [key, value] of Object.entries(series.attributes)) {
    const label = prometheusLabel(key);
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (text !== "") labels[label in labels ? `exported_${label}` : label] = text;
  }
  return labels;
}

/** Deltas become running totals. Their absolute value is arbitrary; rate() and increase() only use differences. */
function seriesFrom(
  labels: Labels,
  series: MetricSeriesPoints,
  knownFromUs: number | null,
  read: (point: SeriesPoint) => number | null,
): PromSeries {
  const made: PromSeries = { labels, timesMs: [], values: [] };
  const isRunning = series.temporality === "delta" || (knownFromUs !== null && hasInterleavedStarts(series.points));
  const amounts = isRunning ? runningTotals(series, knownFromUs ?? 0, read) : series.points.map(read);
  let beforeUs = Number.NEGATIVE_INFINITY;
  for (const [index, point] of series.points.entries()) {
    const value = amounts[index] ?? null;
    const isFromStart = point.startUs !== null && point.startUs >= Math.max(knownFromUs ?? 0, beforeUs) && point.startUs < point.timeUs;
    const isZero = isFromStart && knownFromUs !== null && value !== null && (!isRunning || index === 0);
    if (isZero && point.startUs !== null) push(made, point.startUs, 0);
    push(made, point.timeUs, value);
    beforeUs = point.timeUs;
  }
  return made;
}

/** True if an earlier start time appears again: several processes send under one identity, so a new start is not a restart. */
function hasInterleavedStarts(points: readonly SeriesPoint[]): boolean {
  const seen = new Set<number | null>();
  let current: number | null | undefined;
  for (const { startUs } of points) {
    if (startUs === current) continue;
    if (seen.has(startUs)) return true;
    seen.add(startUs);
    current = startUs;
  }
  return false;
}

function runningTotals(series: MetricSeriesPoints, knownFromUs: number, read: (point: SeriesPoint) => number | null): (number | null)[] {
  const isDelta = series.temporality === "delta";
  const latest = new Map<number | null, number>();
  let total = 0;
  return series.points.map((point) => {
    const value = read(point);
    if (value === null) return null;
    const before = isDelta ? 0 : latest.get(point.startUs);
    const isFirst = latest.size === 0;
    latest.set(point.startUs, value);
    if (before !== undefined) total += value >= before || isDelta ? value - before : value;
    // A total from an unknown start is only a base. Counting it would look like a burst.
    else if (isFirst || (point.startUs !== null && point.startUs >= knownFromUs)) total += value;
    return total;
  });
}

function push({ timesMs, values }: PromSeries, timeUs: number, value: number | null): void {
  timesMs.push(timeUs / 1_000);
  values.push(value);
}

function quantileSeries(labels: Labels, series: MetricSeriesPoints): PromSeries[] {
  const quantiles = new Set(series.points.flatMap(({ quantiles: pairs }) => (pairs ?? []).map(([quantile]) => quantile)));
  return [...quantiles].map((quantile) =>
    seriesFrom({ ...labels, quantile: String(quantile) }, { ...series, temporality: null }, null, (point) => {
      const pair = point.quantiles?.find(([each]) => each === quantile);
      return pair?.[1] ?? null;
    }),
  );
}

/** Buckets may change over time: uses the bounds that all points share. */
function bucketSeries(labels: Labels, series: MetricSeriesPoints, knownFromUs: number): PromSeries[] {
  const bounds = sharedBounds(series.points.flatMap(({ distribution }) => distribution ?? []));
  const cumulative = new Map(series.points.map((point) => [point, point.distribution ? countsBelow(point.distribution, bounds) : null]));
  return bounds.map((upper, index) =>
    seriesFrom({ ...labels, le: upper === Number.POSITIVE_INFINITY ? "+Inf" : String(upper) }, series, knownFromUs, (point) => {
      return cumulative.get(point)?.[index] ?? null;
    }),
  );
}

/** Limit on `le` values of an exponential histogram. Beyond it the scale is reduced. */
const maxBounds = 160;

function sharedBounds(distributions: readonly Distribution[]): number[] {
  const [first, ...others] = distributions;
  if (first === undefined) return [];
  const empty = { count: 0, sum: null, min: null, max: null };
  let all: Distribution = { ...first };
  for (const each of others) all = addDistributions(all, each) ?? { ...empty, buckets: all.buckets };
  const buckets = all.buckets.type === "exponential" ? limitBounds(all.buckets) : all.buckets;
  const bounds = spansOf(buckets).flatMap(({ upper }) => (Number.isFinite(upper) ? [upper] : []));
  if (buckets.type === "exponential") {
    // The lower edge of the first bucket is a bound too; without it that bucket would reach down to zero.
    if (buckets.positive.counts.length > 0) bounds.push(exponentialBound(buckets.scale, buckets.positive.offset));
    if (buckets.negative.counts.length > 0)
      bounds.push(-exponentialBound(buckets.scale, buckets.negative.offset + buckets.negative.counts.length));
  }
  return [...new Set(bounds)].sort((a, b) => a - b).concat(Number.POSITIVE_INFINITY);
}

function limitBounds(buckets: ExponentialBuckets): ExponentialBuckets {
  let shift = 0;
  const length = (): number => downscale(buckets.positive, shift).counts.length + downscale(buckets.negative, shift).counts.length;
  while (length() > maxBounds && shift < 64) shift++;
  return {
    ...buckets,
    scale: buckets.scale - shift,
    positive: downscale(buckets.positive, shift),
    negative: downscale(buckets.negative, shift),
  };
}

function countsBelow({ buckets, count }: Distribution, bounds: readonly number[]): number[] {
  const spans = spansOf(buckets);
  let seen = 0;
  let at = 0;
  return bounds.map((bound) => {
    if (bound === Number.POSITIVE_INFINITY) return count;
    // Bounds are powers computed in two ways and may differ in the last digit.
    for (let span = spans[at]; span !== undefined && span.upper <= bound * (bound > 0 ? 1 + 1e-12 : 1 - 1e-12); span = spans[++at])
      seen += span.count;
    return seen;
  });
}
