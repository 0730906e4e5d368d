/** Statistics behind PromQL's functions and aggregations. NaN sorts lowest, as in Prometheus. */

import type { RangeSamples } from "./samples.ts";

export function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}

/** Population variance, as in Prometheus: divides by n. */
export function variance(values: readonly number[]): number {
  const middle = mean(values);
  return values.reduce((total, value) => total + (value - middle) ** 2, 0) / values.length;
}

/** Ignores NaN unless all values are NaN. */
export function minimum(values: readonly number[]): number {
  return values.reduce((best, value) => (Number.isNaN(best) || value < best ? value : best), Number.NaN);
}

/** Ignores NaN unless all values are NaN. */
export function maximum(values: readonly number[]): number {
  return values.reduce((best, value) => (Number.isNaN(best) || value > best ? value : best), Number.NaN);
}

export function quantile(values: readonly number[], share: number): number {
  if (Number.isNaN(share) || values.length === 0) return Number.NaN;
  if (share < 0) return Number.NEGATIVE_INFINITY;
  if (share > 1) return Number.POSITIVE_INFINITY;
  const sorted = [...values].sort((a, b) => rankOf(a) - rankOf(b) || 0);
  const rank = share * (sorted.length - 1);
  const weight = rank - Math.floor(rank);
  const low = sorted[Math.floor(rank)] ?? Number.NaN;
  const high = sorted[Math.min(sorted.length - 1, Math.floor(rank) + 1)] ?? Number.NaN;
  return low * (1 - weight) + high * weight;
}

const rankOf = (value: number): number => (Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value);

/** How often consecutive values differ. */
export function changes(values: readonly number[]): number {
  return count(values, (before, after) => before !== after && !(Number.isNaN(before) && Number.isNaN(after)));
}

/** How often the value falls: restarts of a counter. */
export function resets(values: readonly number[]): number {
  return count(values, (before, after) => after < before);
}

function count(values: readonly number[], isCounted: (before: number, after: number) => boolean): number {
  return values.reduce((total, value, index) => total + (index > 0 && isCounted(values[index - 1] ?? Number.NaN, value) ? 1 : 0), 0);
}

/** Linear regression by least squares: slope per second, and the value at `originMs`. Null with fewer than two samples. */
export function linearFit({ timesMs, values }: RangeSamples, originMs: number): { slope: number; intercept: number } | null {
  const first = values[0];
  const firstMs = timesMs[0];
  if (values.length < 2 || first === undefined || firstMs === undefined) return null;
  if (values.every((value) => value === first))
    return { slope: Number.isFinite(first) ? 0 : Number.NaN, intercept: Number.isFinite(first) ? first : Number.NaN };
  // Relative to the first sample: seconds since 1970 would lose precision.
  const seconds = timesMs.map((timeMs) => (timeMs - firstMs) / 1_000);
  const meanX = mean(seconds);
  const meanY = mean(values);
  let covariance = 0;
  let spread = 0;
  for (const [index, x] of seconds.entries()) {
    covariance += (x - meanX) * ((values[index] ?? 0) - meanY);
    spread += (x - meanX) ** 2;
  }
  const slope = covariance / spread;
  return { slope, intercept: meanY + slope * ((originMs - firstMs) / 1_000 - meanX) };
}

/** Double exponential smoothing (Holt's linear trend). Null with fewer than two samples. */
export function smoothed(values: readonly number[], smoothing: number, trendSmoothing: number): number | null {
  const [first, second] = values;
  if (first === undefined || second === undefined) return null;
  let before = 0;
  let level = first;
  let trend = second - first;
  for (const [index, value] of values.entries()) {
    if (index === 0) continue;
    if (index > 1) trend = trendSmoothing * (level - before) + (1 - trendSmoothing) * trend;
    before = level;
    level = smoothing * value + (1 - smoothing) * (level + trend);
  }
  return level;
}
