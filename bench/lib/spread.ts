/** A measured quantity over all rounds. */
export interface Spread {
  median: number;
  min: number;
  max: number;
  /** Lower and upper quartile, for quantities with a few outliers. */
  quartiles?: readonly [number, number];
}

/** Median with the smallest and largest value. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right);
  return { median: percentileOf(sorted, 0.5), min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}

/** Median with the quartiles, for noisy series. */
export function quartilesOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right);
  return { ...spreadOf(values), quartiles: [percentileOf(sorted, 0.25), percentileOf(sorted, 0.75)] };
}

/** Ratio per round, so that noise in a round affects both sides. */
export function ratioOf(values: readonly number[], baseline: readonly number[]): Spread {
  return spreadOf(values.map((value, round) => value / (baseline[round] ?? Number.NaN)));
}

/** `sorted` is ascending; `share` is 0..1. Interpolates between values. */
export function percentileOf(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}
