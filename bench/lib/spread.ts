/** A measured quantity over all rounds. */
export interface Spread {
  median: number;
  min: number;
  max: number;
  /** The middle half, for quantities with few wild values. */
  quartiles?: readonly [number, number];
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right);
  return { median: percentileOf(sorted, 0.5), min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}

export function quartilesOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right);
  return { ...spreadOf(values), quartiles: [percentileOf(sorted, 0.25), percentileOf(sorted, 0.75)] };
}

/** Round by round, so that whatever slowed a round down slowed both sides. */
export function ratioOf(values: readonly number[], baseline: readonly number[]): Spread {
  return spreadOf(values.map((value, round) => value / (baseline[round] ?? Number.NaN)));
}

/** `sorted` rises; `share` is 0..1. Between two values it interpolates. */
export function percentileOf(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}
