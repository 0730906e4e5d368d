import type { Labels } from "./samples.ts";
import { keyOf, type VectorValue, withoutLabels } from "./vector.ts";

const dropped: ReadonlySet<string> = new Set(["__name__", "le"]);

interface Bucket {
  upper: number;
  /** Of all values up to it. */
  count: number;
}

/** One value per histogram: the series that agree in all labels but `le`. */
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
  // Without a bucket for everything it is not known how many there are.
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

/** Bounds that were written in two ways are one; counts that fall from one bound to the next are a trick of timing, and are held. */
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
