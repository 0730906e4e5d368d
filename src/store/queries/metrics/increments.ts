/** Increments of counters and histograms between points, whether sent as deltas or as cumulative totals. */

import { type Distribution, growthOf } from "./distribution.ts";
import type { MetricSeriesPoints, SeriesPoint } from "./load-series.ts";

/** An amount accumulated evenly between two times, microseconds since 1970. */
export interface Increment<Amount> {
  fromUs: number;
  toUs: number;
  amount: Amount;
}

/** Points must be in time order. A series whose start is later than `knownFromUs` counts from its start. */
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
  /** Null if the counter restarted in between. */
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
 * A new start time is a restart if points with the same start are contiguous. Start times that interleave belong to several processes under
 * one identity, which must not count as restarts.
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
    // Without a start, or with a start before the data that was read, the first point is only the base.
    else if (startUs !== null && startUs >= knownFromUs) found.push({ fromUs: Math.min(startUs, timeUs), toUs: timeUs, amount });
  }
  return found;
}

/** The share of an increment within [startUs, endUs). An increment without duration counts at its end. */
export function shareWithin({ fromUs, toUs }: Increment<unknown>, startUs: number, endUs: number): number {
  if (toUs <= fromUs) return toUs > startUs && toUs <= endUs ? 1 : 0;
  const overlapUs = Math.min(toUs, endUs) - Math.max(fromUs, startUs);
  return overlapUs <= 0 ? 0 : overlapUs / (toUs - fromUs);
}
