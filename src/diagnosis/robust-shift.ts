/** How far a value moved, in units of its usual spread. Uses medians and quartiles, so that single outliers have no effect. */

import type { Spread, TimesFact } from "../model/diagnosis.ts";

/** Movements below this share of the level are noise, however steady the series was. */
const minPart = 0.05;
/** The shift assigned to a value that was always 0. */
const newShift = 8;
/** Uses half of the distance to the 95th percentile: in a series with a long tail such values are usual. */
const tailPart = 0.5;

/** Spreads above the median. `floor` is an absolute movement, in the unit of the series, that does not matter. */
export function shiftOf(before: Spread, after: Spread, floor: number): number {
  const scale = Math.max(
    before.q75 - before.q25,
    (before.q95 - before.median) * tailPart,
    Math.abs(before.median) * minPart,
    floor,
    // For a value that never occurred before, it is only known to be new.
    before.median === 0 ? Math.abs(after.median) / newShift : 0,
    Number.MIN_VALUE,
  );
  return (after.median - before.median) / scale;
}

/** For durations: a tenth of the usual one is noise, and so is what does not matter to the entry's requests. */
export function timeShift(before: TimesFact, after: TimesFact, floorUs: number, hasTail = true): number {
  const tail = hasTail ? (before.q90 - before.median) * tailPart : 0;
  const scale = Math.max(before.q75 - before.q25, tail, before.median * 2 * minPart, floorUs);
  return (after.median - before.median) / scale;
}

/** Converts a shift to a score that is comparable between statistics: a shift of `half` gives 0.7, ten times as much 2.4. */
const half = 4;

export function scoreOf(shift: number): number {
  return shift > 0 ? Math.log1p(shift / half) : 0;
}

/** Converts a share of successes to a share of failures: all quantiles are mirrored at `whole`, 1 or 100. */
export function mirrored({ count, q05, q25, median, q75, q95 }: Spread, whole: number): Spread {
  return { count, q05: whole - q95, q25: whole - q75, median: whole - median, q75: whole - q25, q95: whole - q05 };
}

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}
