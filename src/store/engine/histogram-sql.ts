/** SQL for histograms: the first bucket in `<name>_lo` and the counts from there in `<name>_counts`, merged bucket by bucket. */

import type { HistogramLayout } from "../../base/latency-histogram.ts";

/** Histograms with more buckets are invalid: an agent must not control how much memory a merge takes. */
const maxBuckets = 4_096;

/** Aggregates the histograms of a group, for `mergedLoSql` and `mergedCountsSql` one query level up. Null if all are empty. */
export function gatheredSql(lo: string, counts: string): string {
  return `list({lo: ${lo}, counts: ${counts}}) FILTER (len(${counts}) > 0 AND ${lo} BETWEEN 0 AND ${maxBuckets} AND len(${counts}) <= ${maxBuckets})`;
}

/** First bucket of the sum of `gatheredSql`; 0 for none. */
export function mergedLoSql(gathered: string): string {
  return `coalesce(list_min(list_transform(${gathered}, lambda h: h.lo)), 0)`;
}

/**
 * Counts of that sum, UBIGINT[]; empty for none. Most groups contain one histogram, which is returned unchanged. The index of a bucket
 * before `lo` must not fall below 1: DuckDB counts those from the end.
 */
export function mergedCountsSql(gathered: string): string {
  const from = `list_min(list_transform(${gathered}, lambda h: h.lo))`;
  const until = `list_max(list_transform(${gathered}, lambda h: h.lo + len(h.counts)))`;
  const inBucket = `list_sum(list_transform(${gathered}, lambda h: coalesce(h.counts[CASE WHEN b >= h.lo THEN b - h.lo + 1 END], 0)))`;
  return `CASE WHEN ${gathered} IS NULL THEN [] WHEN len(${gathered}) = 1 THEN ${gathered}[1].counts::UBIGINT[]
    ELSE list_transform(range(${from}, ${until}), lambda b: ${inBucket})::UBIGINT[] END`;
}

/** The middle of bucket `bucket` in microseconds, equal to `bucketMiddleNs`. */
export function bucketMiddleUsSql(layout: HistogramLayout, bucket: string): string {
  const parts = 1 << layout.partsPerOctaveLog2;
  const start = (n: string): string => `pow(2, 10 + (${n} - 1) // ${parts}) * (1 + ((${n} - 1) % ${parts}) / ${parts}.0)`;
  return `(CASE WHEN ${bucket} <= 0 THEN 512 ELSE (${start(bucket)} + ${start(`(${bucket} + 1)`)}) / 2 END / 1000.0)::DOUBLE`;
}
