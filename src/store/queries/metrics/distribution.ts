/** Metric histograms: differences, sums and quantiles, exact where bucket bounds allow it. */

export interface ExplicitBuckets {
  type: "explicit";
  /** Ascending upper bounds; the last bucket is unbounded. */
  bounds: readonly number[];
  /** One count more than bounds. Counts may be fractional after scaling. */
  counts: readonly number[];
}

/** Bucket i counts values in (b^(offset+i), b^(offset+i+1)], where b = 2^(2^-scale). */
export interface ExponentialSide {
  offset: number;
  counts: readonly number[];
}

export interface ExponentialBuckets {
  type: "exponential";
  scale: number;
  zeroCount: number;
  /** The zero bucket counts values whose magnitude is at most this. */
  zeroThreshold: number;
  positive: ExponentialSide;
  negative: ExponentialSide;
}

export type Buckets = ExplicitBuckets | ExponentialBuckets;

/** Observations: count, sum and buckets. Min and max are null when unknown. */
export interface Distribution {
  count: number;
  sum: number | null;
  min: number | null;
  max: number | null;
  buckets: Buckets;
}

/** One bucket with its edges. `isLog`: interpolate on a logarithmic scale. */
export interface Span {
  lower: number;
  upper: number;
  count: number;
  isLog: boolean;
}

/** Null if the two cannot be merged because their kinds of buckets differ. */
export function addDistributions(one: Distribution, other: Distribution): Distribution | null {
  const buckets = combine(one.buckets, other.buckets, 1);
  if (buckets === null) return null;
  return {
    count: one.count + other.count,
    sum: one.sum === null || other.sum === null ? null : one.sum + other.sum,
    min: extreme(Math.min, one.min, other.min),
    max: extreme(Math.max, one.max, other.max),
    buckets,
  };
}

/** Increase between two readings of a cumulative histogram. Null if a count fell. */
export function growthOf(later: Distribution, earlier: Distribution): Distribution | null {
  if (later.count < earlier.count) return null;
  const buckets = combine(later.buckets, earlier.buckets, -1);
  if (buckets === null || hasNegative(buckets)) return null;
  const sum = later.sum === null || earlier.sum === null ? null : later.sum - earlier.sum;
  // Min and max cover all time since the start, so they still bound the increase.
  return { count: later.count - earlier.count, sum, min: later.min, max: later.max, buckets };
}

export function scaleDistribution(distribution: Distribution, factor: number): Distribution {
  const { buckets, count, sum } = distribution;
  const scaled = (counts: readonly number[]): number[] => counts.map((each) => each * factor);
  const side = ({ offset, counts }: ExponentialSide): ExponentialSide => ({ offset, counts: scaled(counts) });
  return {
    ...distribution,
    count: count * factor,
    sum: sum === null ? null : sum * factor,
    buckets:
      buckets.type === "explicit"
        ? { ...buckets, counts: scaled(buckets.counts) }
        : { ...buckets, zeroCount: buckets.zeroCount * factor, positive: side(buckets.positive), negative: side(buckets.negative) },
  };
}

/** `share` is between 0 and 1. Null without observations, or when the buckets do not determine the quantile. */
export function quantileOf({ buckets, min, max }: Distribution, share: number): number | null {
  // A single bucket determines no quantile.
  if (buckets.type === "explicit" && buckets.bounds.length === 0 && (min === null || max === null)) return null;
  const spans = spansOf(buckets).filter(({ count }) => count > 0);
  const total = spans.reduce((sum, { count }) => sum + count, 0);
  if (!(total > 0)) return null;
  const rank = share * total;
  let seen = 0;
  for (const [index, span] of spans.entries()) {
    seen += span.count;
    if (seen >= rank || index === spans.length - 1) {
      const part = Math.min(1, Math.max(0, 1 - (seen - rank) / span.count));
      return clamp(within(span, part, min, max), min, max);
    }
  }
  return null;
}

/** All buckets in ascending order, including empty ones. */
export function spansOf(buckets: Buckets): Span[] {
  if (buckets.type === "explicit") {
    const { bounds, counts } = buckets;
    return counts.map((count, index) => ({
      lower: index === 0 ? firstLower(bounds[0]) : (bounds[index - 1] ?? Number.NEGATIVE_INFINITY),
      upper: bounds[index] ?? Number.POSITIVE_INFINITY,
      count,
      isLog: false,
    }));
  }
  const { scale, zeroCount, zeroThreshold, positive, negative } = buckets;
  const below = negative.counts
    .map((count, index): Span => {
      const upper = -exponentialBound(scale, negative.offset + index);
      return { lower: -exponentialBound(scale, negative.offset + index + 1), upper, count, isLog: true };
    })
    .reverse();
  const above = positive.counts.map((count, index): Span => {
    const lower = exponentialBound(scale, positive.offset + index);
    return { lower, upper: exponentialBound(scale, positive.offset + index + 1), count, isLog: true };
  });
  const zero: Span = {
    lower: below.length > 0 ? -zeroThreshold : 0,
    upper: zeroThreshold,
    count: zeroCount,
    isLog: false,
  };
  return [...below, zero, ...above];
}

/** Lower edge of the bucket with this index. */
export function exponentialBound(scale: number, index: number): number {
  return 2 ** (index * 2 ** -scale);
}

/** Re-buckets counts into buckets that are 2^shift times as wide. */
export function downscale(side: ExponentialSide, shift: number): ExponentialSide {
  if (shift <= 0 || side.counts.length === 0) return side;
  const factor = 2 ** shift;
  const offset = Math.floor(side.offset / factor);
  const last = Math.floor((side.offset + side.counts.length - 1) / factor);
  const counts = new Array<number>(last - offset + 1).fill(0);
  for (const [index, count] of side.counts.entries()) {
    const at = Math.floor((side.offset + index) / factor) - offset;
    counts[at] = (counts[at] ?? 0) + count;
  }
  return { offset, counts };
}

/** Assumes a lower edge of zero if the first bound is positive: durations and sizes are never negative. */
function firstLower(bound: number | undefined): number {
  if (bound === undefined) return 0;
  return bound > 0 ? 0 : Number.NEGATIVE_INFINITY;
}

function within({ lower, upper, isLog }: Span, part: number, min: number | null, max: number | null): number {
  // The outermost buckets are unbounded: use the known min or max, else the one edge.
  const from = Number.isFinite(lower) ? lower : (min ?? upper);
  const to = Number.isFinite(upper) ? upper : Math.max(lower, max ?? lower);
  if (isLog && from > 0 && to > 0) return from * (to / from) ** part;
  if (isLog && from < 0 && to < 0) return from * (to / from) ** part;
  return from + (to - from) * part;
}

function clamp(value: number, min: number | null, max: number | null): number {
  const low = min === null ? value : Math.max(min, value);
  return max === null ? low : Math.min(max, low);
}

function combine(one: Buckets, other: Buckets, sign: 1 | -1): Buckets | null {
  if (one.type === "explicit") return other.type === "explicit" ? combineExplicit(one, other, sign) : null;
  return other.type === "exponential" ? combineExponential(one, other, sign) : null;
}

function combineExplicit(one: ExplicitBuckets, other: ExplicitBuckets, sign: 1 | -1): ExplicitBuckets {
  const isSame = one.bounds.length === other.bounds.length && one.bounds.every((bound, index) => bound === other.bounds[index]);
  if (isSame) return { ...one, counts: one.counts.map((count, index) => count + sign * (other.counts[index] ?? 0)) };
  // Counts below a bound are known exactly only at bounds that both have.
  const known = new Set(other.bounds);
  const bounds = one.bounds.filter((bound) => known.has(bound));
  const left = atBounds(one, bounds);
  const right = atBounds(other, bounds);
  return { type: "explicit", bounds, counts: left.map((count, index) => count + sign * (right[index] ?? 0)) };
}

function atBounds({ bounds, counts }: ExplicitBuckets, kept: readonly number[]): number[] {
  const result = new Array<number>(kept.length + 1).fill(0);
  let at = 0;
  for (const [index, count] of counts.entries()) {
    const upper = bounds[index] ?? Number.POSITIVE_INFINITY;
    while (at < kept.length && upper > (kept[at] ?? 0)) at++;
    result[at] = (result[at] ?? 0) + count;
  }
  return result;
}

function combineExponential(one: ExponentialBuckets, other: ExponentialBuckets, sign: 1 | -1): ExponentialBuckets {
  const scale = Math.min(one.scale, other.scale);
  const side = (left: ExponentialSide, right: ExponentialSide): ExponentialSide =>
    combineSides(downscale(left, one.scale - scale), downscale(right, other.scale - scale), sign);
  return {
    type: "exponential",
    scale,
    zeroCount: one.zeroCount + sign * other.zeroCount,
    zeroThreshold: Math.max(one.zeroThreshold, other.zeroThreshold),
    positive: side(one.positive, other.positive),
    negative: side(one.negative, other.negative),
  };
}

function combineSides(left: ExponentialSide, right: ExponentialSide, sign: 1 | -1): ExponentialSide {
  if (right.counts.length === 0) return left;
  const first = left.counts.length === 0 ? right.offset : Math.min(left.offset, right.offset);
  const end = Math.max(left.counts.length === 0 ? first : left.offset + left.counts.length, right.offset + right.counts.length);
  const counts = new Array<number>(end - first).fill(0);
  for (const [index, count] of left.counts.entries()) counts[left.offset - first + index] = count;
  for (const [index, count] of right.counts.entries()) {
    const at = right.offset - first + index;
    counts[at] = (counts[at] ?? 0) + sign * count;
  }
  return { offset: first, counts };
}

function hasNegative(buckets: Buckets): boolean {
  if (buckets.type === "explicit") return buckets.counts.some((count) => count < 0);
  return buckets.zeroCount < 0 || [...buckets.positive.counts, ...buckets.negative.counts].some((count) => count < 0);
}

function extreme(choose: (...values: number[]) => number, one: number | null, other: number | null): number | null {
  return one === null || other === null ? null : choose(one, other);
}
