/** Data points as rows of the store: checked, and with the fingerprint of their series. */

import { hash } from "node:crypto";
import type { metricPoint, metricSeries, RowOf } from "../../store/signals/index.ts";
import type { MetricPoint } from "./metric-point.ts";

export type MetricPointRow = RowOf<typeof metricPoint.columns>;
export type MetricSeriesRow = RowOf<typeof metricSeries.columns>;

/** The fingerprint of a series: points with the same one belong to one series. */
export function seriesOf(point: MetricPoint): string {
  const identity = [
    point.service,
    point.resource,
    point.scopeName,
    point.scopeVersion,
    point.name,
    point.unit,
    point.kind,
    point.temporality,
    String(point.isMonotonic),
    point.attributes,
  ];
  return hash("sha1", identity.join("\u0000"), "hex").slice(0, 16);
}

/** Undefined when a number in it cannot be kept exactly. */
export function metricRowOf(point: MetricPoint, series: string, monoMs: number): MetricPointRow | undefined {
  const parts = point.hasNoValue ? { ...noParts, special: "none" } : partsOf(point);
  if (parts === undefined) return undefined;
  return {
    at: point.timeUs,
    mono_ms: monoMs,
    service: point.service,
    name: point.name,
    unit: point.unit,
    kind: point.kind,
    temporality: point.temporality === "unspecified" ? null : point.temporality,
    is_monotonic: point.isMonotonic,
    attributes: point.attributes,
    series,
    service_version: point.serviceVersion || null,
    service_instance: point.serviceInstance || null,
    start_time: point.startTimeUs > 0 ? point.startTimeUs : null,
    ...parts,
  };
}

/** The description of a series. Stored apart from its points, and again every 3 h. */
export function metricSeriesRowOf(point: MetricPoint, series: string, atUs: number, monoMs: number): MetricSeriesRow {
  return {
    at: atUs,
    mono_ms: monoMs,
    series,
    service: point.service,
    name: point.name,
    description: point.description,
    attributes: point.attributes,
    environment: point.environment || null,
    host_name: point.hostName || null,
    resource: point.resource || null,
    scope_name: point.scopeName || null,
    scope_version: point.scopeVersion || null,
  };
}

const noParts = {
  value: null as number | null,
  special: null as string | null,
  count: null as number | null,
  sum: null as number | null,
  min: null as number | null,
  max: null as number | null,
  bounds: null as string | null,
  counts: null as string | null,
  scale: null as number | null,
  zero_count: null as number | null,
  zero_threshold: null as number | null,
  positive_offset: null as number | null,
  positive_counts: null as string | null,
  negative_offset: null as number | null,
  negative_counts: null as string | null,
  quantiles: null as string | null,
};
type Parts = typeof noParts;

/** The value columns of a point; the others are null. Undefined if a count, bound or scale is out of range. */
function partsOf(point: MetricPoint): Parts | undefined {
  if (point.kind === "gauge" || point.kind === "sum") {
    const { value = Number.NaN } = point;
    return Number.isFinite(value) ? { ...noParts, value } : { ...noParts, special: specialOf(value) };
  }
  const { count = 0 } = point;
  if (!isCount(count)) return undefined;
  const parts: Parts = { ...noParts, count, sum: finite(point.sum), min: finite(point.min), max: finite(point.max) };
  switch (point.kind) {
    case "histogram":
      return withBuckets(parts, point);
    case "exponential_histogram":
      return withExponentialBuckets(parts, point);
    case "summary":
      return { ...parts, quantiles: JSON.stringify((point.quantiles ?? []).map(({ quantile, value }) => [quantile, finite(value)])) };
  }
}

function withBuckets(parts: Parts, point: MetricPoint): Parts | undefined {
  const bounds = [...(point.bounds ?? [])];
  const counts = [...(point.counts ?? [])];
  // A bound at infinity is redundant.
  if (bounds.at(-1) === Number.POSITIVE_INFINITY) {
    bounds.pop();
    counts.push((counts.pop() ?? 0) + (counts.pop() ?? 0));
  }
  if (!bounds.every(Number.isFinite) || !counts.every(isCount)) return undefined;
  return { ...parts, bounds: JSON.stringify(bounds), counts: JSON.stringify(counts) };
}

/** Bucket `i` of a scale covers (base^i, base^(i+1)], where base is 2^(2^-scale). */
function withExponentialBuckets(parts: Parts, point: MetricPoint): Parts | undefined {
  const { scale = 0, zeroCount = 0, zeroThreshold = 0, positive, negative } = point;
  const counts = [...(positive?.counts ?? []), ...(negative?.counts ?? [])];
  // Beyond these scales, buckets are narrower than the distance between doubles, or wider than their range.
  if (scale < -11 || scale > 52 || !isCount(zeroCount) || !counts.every(isCount)) return undefined;
  return {
    ...parts,
    scale,
    zero_count: zeroCount,
    zero_threshold: finite(zeroThreshold) ?? 0,
    positive_offset: positive?.offset ?? 0,
    positive_counts: JSON.stringify(positive?.counts ?? []),
    negative_offset: negative?.offset ?? 0,
    negative_counts: JSON.stringify(negative?.counts ?? []),
  };
}

function specialOf(value: number): string {
  if (Number.isNaN(value)) return "nan";
  return value > 0 ? "+inf" : "-inf";
}

function finite(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value : null;
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
