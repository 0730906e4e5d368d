/**
 * Latency histograms with log-linear buckets: each octave of nanoseconds is divided into equal parts. Histograms of one layout merge by
 * addition without loss, in the kernel, in JavaScript and in SQL. A percentile is read from the middle of a bucket, so its error is at most
 * half a bucket.
 */

export interface HistogramLayout {
  /** As a power of two. */
  partsPerOctaveLog2: number;
  /** Bucket 0 contains everything below 1.024 µs; the last one also everything above 68.7 s. */
  bucketCount: number;
}

const firstOctave = 10;
const octaves = 26;

/** 16 parts per octave: error at most 3.1 %. For whole requests. */
export const fineLayout: HistogramLayout = { partsPerOctaveLog2: 4, bucketCount: 1 + octaves * 16 };
/** 8 parts per octave: error at most 6.3 %. For parts of a request: queue time, time to first byte. */
export const coarseLayout: HistogramLayout = { partsPerOctaveLog2: 3, bucketCount: 1 + octaves * 8 };

/** The stored form of histograms: the counts from bucket `lo` on, without empty buckets at either end. */
export interface SparseHistogram {
  lo: number;
  counts: number[];
}

/** Same arithmetic as `latency_bucket()` in probes/core/histogram.h. */
export function bucketOf(layout: HistogramLayout, ns: number): number {
  if (!(ns >= 1 << firstOctave)) return 0;
  if (ns < 2 ** 32) {
    // Most latencies are below 4.3 s, where counting leading zeros is much faster than a logarithm.
    const whole = ns >>> 0;
    const octave = 31 - Math.clz32(whole);
    const part = (whole >>> (octave - layout.partsPerOctaveLog2)) & ((1 << layout.partsPerOctaveLog2) - 1);
    return 1 + ((octave - firstOctave) << layout.partsPerOctaveLog2) + part;
  }
  const octave = Math.floor(Math.log2(ns));
  // log2 of a number just below a power of two may round up.
  const exact = 2 ** octave > ns ? octave - 1 : octave;
  const part = Math.floor((ns / 2 ** exact - 1) * (1 << layout.partsPerOctaveLog2));
  return Math.min(1 + ((exact - firstOctave) << layout.partsPerOctaveLog2) + part, layout.bucketCount - 1);
}

/** Lower bound of a bucket, nanoseconds. */
export function bucketStartNs(layout: HistogramLayout, bucket: number): number {
  if (bucket <= 0) return 0;
  const parts = 1 << layout.partsPerOctaveLog2;
  return 2 ** (firstOctave + Math.floor((bucket - 1) / parts)) * (1 + ((bucket - 1) % parts) / parts);
}

/** Middle of a bucket, nanoseconds; stands for all values in it. */
export function bucketMiddleNs(layout: HistogramLayout, bucket: number): number {
  return (bucketStartNs(layout, bucket) + bucketStartNs(layout, bucket + 1)) / 2;
}

/** `share` between 0 and 1. Null for an empty histogram. */
export function percentileNs(layout: HistogramLayout, { lo, counts }: SparseHistogram, share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let seen = 0;
  for (const [index, count] of counts.entries()) {
    seen += count;
    if (seen >= share * total) return bucketMiddleNs(layout, lo + index);
  }
  return null;
}

/** Removes empty buckets at both ends. */
export function sparse(counts: ArrayLike<number>): SparseHistogram {
  let lo = 0;
  let end = counts.length;
  while (lo < end && counts[lo] === 0) lo++;
  while (end > lo && counts[end - 1] === 0) end--;
  return lo === end ? { lo: 0, counts: [] } : { lo, counts: Array.from({ length: end - lo }, (_, index) => counts[lo + index] ?? 0) };
}

/** The sum of two histograms of one layout; a new object. */
export function mergeHistograms(one: SparseHistogram, other: SparseHistogram): SparseHistogram {
  if (one.counts.length === 0) return other;
  if (other.counts.length === 0) return one;
  const lo = Math.min(one.lo, other.lo);
  const end = Math.max(one.lo + one.counts.length, other.lo + other.counts.length);
  const counts = new Array<number>(end - lo).fill(0);
  for (const { lo: first, counts: added } of [one, other]) {
    // No iterator: an agent's code is mostly interpreted, where an iterator costs more than the addition.
    for (let index = 0; index < added.length; index++) counts[first - lo + index] = (counts[first - lo + index] ?? 0) + (added[index] ?? 0);
  }
  return { lo, counts };
}
