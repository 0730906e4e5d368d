/** Significance tests and effect sizes for two samples. Deterministic. */

import type { SparseHistogram } from "../../base/latency-histogram.ts";

/** `hits` of `total`. */
export interface Cell {
  hits: number;
  total: number;
}

/** Fisher's exact test, two-sided: the sum of all tables that are at most as likely as this one. */
export function fisherTest(a: Cell, b: Cell): number {
  const hits = Math.round(a.hits + b.hits);
  const [totalA, totalB] = [Math.round(a.total), Math.round(b.total)];
  const all = logChoose(totalA + totalB, hits);
  const logOf = (inA: number): number => logChoose(totalA, inA) + logChoose(totalB, hits - inA) - all;
  const own = logOf(Math.round(a.hits));
  let sum = 0;
  for (let inA = Math.max(0, hits - totalB); inA <= Math.min(hits, totalA); inA++) {
    const value = logOf(inA);
    if (value <= own + 1e-7) sum += Math.exp(value);
  }
  return Math.min(1, sum);
}

/**
 * Cliff's delta, -1..1: P(after > before) − P(after < before). By convention 0.15 is small, 0.33 medium, 0.47 large. Computed
 * from buckets; it is the Mann–Whitney statistic on another scale.
 */
export function cliffsDelta(before: SparseHistogram, after: SparseHistogram): number {
  const countOf = ({ counts }: SparseHistogram): number => counts.reduce((sum, count) => sum + count, 0);
  const [totalA, totalB] = [countOf(before), countOf(after)];
  if (totalA === 0 || totalB === 0) return 0;
  const first = Math.min(before.lo, after.lo);
  const end = Math.max(before.lo + before.counts.length, after.lo + after.counts.length);
  let below = 0;
  let greater = 0;
  for (let bucket = first; bucket < end; bucket++) {
    const inA = before.counts[bucket - before.lo] ?? 0;
    const inB = after.counts[bucket - after.lo] ?? 0;
    // Values of `before` in lower buckets are smaller, those in higher ones greater.
    greater += inB * (below - (totalA - below - inA));
    below += inA;
  }
  return greater / (totalA * totalB);
}

/** Cohen's h: effect size for two shares, comparable at every level. By convention 0.2 is small, 0.5 medium, 0.8 large. */
export function cohensH(before: number, after: number): number {
  return 2 * Math.asin(Math.sqrt(after)) - 2 * Math.asin(Math.sqrt(before));
}

/** Holm's correction: adjusted p-values, in the given order. Keeping those below α bounds the family-wise error rate by α. */
export function holm(pValues: readonly number[]): number[] {
  const order = pValues.map((pValue, index) => ({ pValue, index })).sort((a, b) => a.pValue - b.pValue);
  const adjusted = new Array<number>(pValues.length).fill(1);
  let least = 0;
  for (const [rank, { pValue, index }] of order.entries()) {
    least = Math.max(least, Math.min(1, pValue * (pValues.length - rank)));
    adjusted[index] = least;
  }
  return adjusted;
}

/** Upper tail of Student's distribution at `t` ≥ 0. */
export function studentTail(t: number, freedom: number): number {
  if (!Number.isFinite(t)) return 0;
  return 0.5 * incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

/** Regularised incomplete beta function, by its continued fraction (Lentz). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  // The continued fraction converges quickly only on one side of the mean.
  return x < (a + 1) / (a + b + 2) ? (front * betaFraction(x, a, b)) / a : 1 - (front * betaFraction(1 - x, b, a)) / b;
}

function betaFraction(x: number, a: number, b: number): number {
  const least = 1e-300;
  const kept = (value: number): number => (Math.abs(value) < least ? least : value);
  let c = 1;
  let d = 1 / kept(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let step = 1; step <= 300; step++) {
    const even = (step * (b - step) * x) / ((a + 2 * step - 1) * (a + 2 * step));
    d = 1 / kept(1 + even * d);
    c = kept(1 + even / c);
    result *= d * c;
    const odd = (-(a + step) * (a + b + step) * x) / ((a + 2 * step) * (a + 2 * step + 1));
    d = 1 / kept(1 + odd * d);
    c = kept(1 + odd / c);
    result *= d * c;
    if (Math.abs(d * c - 1) < 1e-14) break;
  }
  return result;
}

function logChoose(n: number, k: number): number {
  return k < 0 || k > n ? Number.NEGATIVE_INFINITY : logGamma(n + 1) - logGamma(k + 1) - logGamma(n - k + 1);
}

const lanczos = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
  -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** Natural logarithm of Γ for arguments above 0. */
function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const shifted = x - 1;
  let sum = lanczos[0] ?? 1;
  for (let index = 1; index < lanczos.length; index++) sum += (lanczos[index] ?? 0) / (shifted + index);
  const t = shifted + 7.5;
  return 0.5 * Math.log(2 * Math.PI) + (shifted + 0.5) * Math.log(t) - t + Math.log(sum);
}
