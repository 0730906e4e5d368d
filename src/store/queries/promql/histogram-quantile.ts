import type { Labels } from "./samples.ts";
import { keyOf, type VectorValue, withoutLabels } from "./vector.ts";

const dropped: ReadonlySet<string> = new Set(["__name__", "le"]);

interface Bucket {
  upper: number;
  /** Cumulative: observations at or below the bound. */
  count: number;
}

/** Groups series that differ only in `le` into one histogram, and returns one value for each. */
export function histogramQuantile(share: number, vector: readonly VectorValue[]): VectorValue[] {
  const groups = new Map<string, { labels: Labels; buckets: Bucket[] }>();
  for (const { labels, value } of vector) {
    const upper = boundOf(labels["le"]);
    if (upper === null) continue;
    const rest = withoutLabels(labels, dropped);
    const key = keyOf(rest);
    const group = groups.get(key) ?? { labels: rest, buckets: [] };
    group.buckets.push({ upper, count: value });
    groups.set(key, group);
  }
  return [...groups.values()].map(({ labels, buckets }) => ({ labels, value: bucketQuantile(share, buckets) }));
}

function boundOf(text: string | undefined): number | null {
  if (text === undefined || text === "") return null;
  if (/^\+?inf$/i.test(text)) return Number.POSITIVE_INFINITY;
  const bound = Number(text);
  return Number.isNaN(bound) ? null : bound;
}

function bucketQuantile(share: number, unsorted: readonly Bucket[]): number {
  if (Number.isNaN(share)) return Number.NaN;
  if (share < 0) return Number.NEGATIVE_INFINITY;
  if (share > 1) return Number.POSITIVE_INFINITY;
  const buckets = merged([...unsorted].sort((a, b) => a.upper - b.upper));
  const last = buckets.at(-1);
  // Without a +Inf bucket the total count is unknown.
  if (last === undefined || last.upper !== Number.POSITIVE_INFINITY || buckets.length < 2 || !(last.count > 0)) return Number.NaN;
  const rank = share * last.count;
  const index = buckets.findIndex(({ count }) => count >= rank);
  const bucket = buckets[index];
  if (bucket === undefined) return Number.NaN;
  if (index === buckets.length - 1) return buckets[index - 1]?.upper ?? Number.NaN;
  if (index === 0 && bucket.upper <= 0) return bucket.upper;
  const before = buckets[index - 1];
  const lower = before?.upper ?? 0;
  const below = before?.count ?? 0;
  const within = bucket.count - below;
  return lower + (bucket.upper - lower) * (within > 0 ? (rank - below) / within : 1);
}

/**
 * Merges buckets whose bounds differ only in spelling, and makes counts non-decreasing: buckets scraped at slightly different moments may
 * fall.
 */
function merged(buckets: readonly Bucket[]): Bucket[] {
  const result: Bucket[] = [];
  for (const { upper, count } of buckets) {
    const last = result.at(-1);
    if (last?.upper === upper) last.count += count;
    else result.push({ upper, count });
  }
  let most = Number.NEGATIVE_INFINITY;
  for (const bucket of result) {
    most = Math.max(most, bucket.count);
    bucket.count = most;
  }
  return result;
}
