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

function incrementsOf<Amount>(series: MetricSeriesPoints, knownFromUs: number, { read, grow }: Reading<Amount>): Increment<Amount>[] {
  const isDelta = series.temporality === "delta";
  const found: Increment<Amount>[] = [];
  let before: { point: SeriesPoint; amount: Amount } | undefined;
  for (const point of series.points) {
    const amount = read(point);
    if (amount === null) continue;
    if (isDelta) {
      const fromUs = point.startUs ?? before?.point.timeUs ?? point.timeUs;
      found.push({ fromUs: Math.min(fromUs, point.timeUs), toUs: point.timeUs, amount });
    } else if (before === undefined) {
      // Without a start, or with one that is older than what was read, the first point only says where to count from.
      if (point.startUs !== null && point.startUs >= knownFromUs) found.push({ fromUs: point.startUs, toUs: point.timeUs, amount });
    } else {
      const isNewStart = point.startUs !== null && point.startUs >= before.point.timeUs && point.startUs !== before.point.startUs;
      const grown = isNewStart ? null : grow(amount, before.amount);
      const fromUs = grown === null ? Math.max(before.point.timeUs, point.startUs ?? 0) : before.point.timeUs;
      found.push({ fromUs: Math.min(fromUs, point.timeUs), toUs: point.timeUs, amount: grown ?? amount });
    }
    before = { point, amount };
  }
  return found;
}

/** The share of an increment that lies within [startUs, endUs). One without a duration lies where it ends. */
export function shareWithin({ fromUs, toUs }: Increment<unknown>, startUs: number, endUs: number): number {
  if (toUs <= fromUs) return toUs > startUs && toUs <= endUs ? 1 : 0;
  const overlapUs = Math.min(toUs, endUs) - Math.max(fromUs, startUs);
  return overlapUs <= 0 ? 0 : overlapUs / (toUs - fromUs);
}
