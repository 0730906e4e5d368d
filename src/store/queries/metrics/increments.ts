/** What counters and histograms counted from point to point, whether they were sent as deltas or as totals since a start. */

import { type Distribution, growthOf } from "./distribution.ts";
import type { MetricSeriesPoints, SeriesPoint } from "./load-series.ts";

/** An amount that came up evenly between two times; microseconds since 1970. */
export interface Increment<Amount> {
  fromUs: number;
  toUs: number;
  amount: Amount;
}

/** Points must be in the order of time. `knownFromUs`: a series that started later than this is counted from its start. */
export function valueIncrements(series: MetricSeriesPoints, knownFromUs: number): Increment<number>[] {
  return incrementsOf(series, knownFromUs, {
    read: ({ value }) => value,
    grow: (later, earlier) => (later >= earlier ? later - earlier : null),
  });
}

export function distributionIncrements(series: MetricSeriesPoints, knownFromUs: number): Increment<Distribution>[] {
  return incrementsOf(series, knownFromUs, { read: ({ distribution }) => distribution, grow: growthOf });
}

interface Reading<Amount> {
  read: (point: SeriesPoint) => Amount | null;
  /** Null when the count started again in between. */
  grow: (later: Amount, earlier: Amount) => Amount | null;
}

function incrementsOf<Amount>(series: MetricSeriesPoints, knownFromUs: number, reading: Reading<Amount>): Increment<Amount>[] {
  return series.temporality === "delta" ? deltasOf(series, reading) : growthsOf(series, knownFromUs, reading);
}

function deltasOf<Amount>({ points }: MetricSeriesPoints, { read }: Reading<Amount>): Increment<Amount>[] {
  const found: Increment<Amount>[] = [];
  let beforeUs: number | undefined;
  for (const point of points) {
    const amount = read(point);
    if (amount === null) continue;
    const fromUs = point.startUs ?? beforeUs ?? point.timeUs;
    found.push({ fromUs: Math.min(fromUs, point.timeUs), toUs: point.timeUs, amount });
    beforeUs = point.timeUs;
  }
  return found;
}

/**
 * Points with the same start follow each other: a new start is a restart, and starts that take turns are several processes that call themselves
 * the same, which must not be taken for restarts.
 */
function growthsOf<Amount>({ points }: MetricSeriesPoints, knownFromUs: number, { read, grow }: Reading<Amount>): Increment<Amount>[] {
  const found: Increment<Amount>[] = [];
  const latest = new Map<number | null, { timeUs: number; amount: Amount }>();
  for (const point of points) {
    const { startUs, timeUs } = point;
    const amount = read(point);
    if (amount === null) continue;
    const before = latest.get(startUs);
    latest.set(startUs, { timeUs, amount });
    if (before) found.push({ fromUs: before.timeUs, toUs: timeUs, amount: grow(amount, before.amount) ?? amount });
    // Without a start, or with one that is older than what was read, the first point is only the base to count from.
    else if (startUs !== null && startUs >= knownFromUs) found.push({ fromUs: Math.min(startUs, timeUs), toUs: timeUs, amount });
  }
  return found;
}

/** The share of an increment that lies within [startUs, endUs). One without a duration lies where it ends. */
export function shareWithin({ fromUs, toUs }: Increment<unknown>, startUs: number, endUs: number): number {
  if (toUs <= fromUs) return toUs > startUs && toUs <= endUs ? 1 : 0;
  const overlapUs = Math.min(toUs, endUs) - Math.max(fromUs, startUs);
  return overlapUs <= 0 ? 0 : overlapUs / (toUs - fromUs);
}
