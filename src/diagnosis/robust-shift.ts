/** How far a value moved, in units of what is usual: medians and quartiles, so that single outliers do not count. */

import type { Spread, TimesFact } from "../model/diagnosis.ts";

/** Smaller movements than this part of the level are noise, however steady the series was. */
const minPart = 0.05;
/** The shift of a value that was always 0. */
const newShift = 8;
/** Half of the distance to the 95th percentile: a series with a long tail is usual up there. */
const tailPart = 0.5;

/** Spreads above the median; `floor` is an absolute movement in the unit of the series that does not matter. */
export function shiftOf(before: Spread, after: Spread, floor: number): number {
  const scale = Math.max(
    before.q75 - before.q25,
    (before.q95 - before.median) * tailPart,
    Math.abs(before.median) * minPart,
    floor,
    // Of what never was there before, nothing is known but that it is new.
    before.median === 0 ? Math.abs(after.median) / newShift : 0,
    Number.MIN_VALUE,
  );
  return (after.median - before.median) / scale;
}

/** Durations: a tenth of the usual one is noise, and so is what does not matter to the requests of the entry. */
export function timeShift(before: TimesFact, after: TimesFact, floorUs: number, hasTail = true): number {
  const tail = hasTail ? (before.q90 - before.median) * tailPart : 0;
  const scale = Math.max(before.q75 - before.q25, tail, before.median * 2 * minPart, floorUs);
  return (after.median - before.median) / scale;
}

/** All statistics become such scores before they are compared: a shift of `half` gives 0.7, ten times as much 2.4. */
const half = 4;

export function scoreOf(shift: number): number {
  return shift > 0 ? Math.log1p(shift / half) : 0;
}

/** A share of failures instead of successes: all quantiles are mirrored at `whole`, 1 or 100. */
export function mirrored({ count, q05, q25, median, q75, q95 }: Spread, whole: number): Spread {
  return { count, q05: whole - q95, q25: whole - q75, median: whole - median, q75: whole - q25, q95: whole - q05 };
}

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}
