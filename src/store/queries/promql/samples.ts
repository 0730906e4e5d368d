/** Samples of a series, and what PromQL computes from the samples in a range. */

export type Labels = Readonly<Record<string, string>>;

/** Samples in time order, milliseconds since 1970. A null value is a stale marker: the series ended. */
export interface PromSeries {
  labels: Labels;
  timesMs: number[];
  values: (number | null)[];
}

/** Samples of one series in a range. */
export interface RangeSamples {
  timesMs: readonly number[];
  values: readonly number[];
  /** Exclusive; `endMs` is inclusive. */
  startMs: number;
  endMs: number;
}

/** Prometheus' default lookback: an older sample does not count as the current value. */
export const lookBackMs = 5 * 60_000;

/** The newest sample at or before a time, unless it is older than the lookback. */
export function instantSample({ timesMs, values }: PromSeries, atMs: number): { value: number; timeMs: number } | null {
  const index = lastAtOrBefore(timesMs, atMs);
  const timeMs = timesMs[index];
  const value = values[index];
  return timeMs === undefined || value === undefined || value === null || timeMs <= atMs - lookBackMs ? null : { value, timeMs };
}

export function rangeSamples({ timesMs, values }: PromSeries, startMs: number, endMs: number): RangeSamples {
  const first = lastAtOrBefore(timesMs, startMs) + 1;
  const last = lastAtOrBefore(timesMs, endMs);
  const kept: RangeSamples & { timesMs: number[]; values: number[] } = { timesMs: [], values: [], startMs, endMs };
  for (let index = first; index <= last; index++) {
    const value = values[index];
    if (value === null || value === undefined) continue;
    kept.timesMs.push(timesMs[index] ?? 0);
    kept.values.push(value);
  }
  return kept;
}

function lastAtOrBefore(timesMs: readonly number[], atMs: number): number {
  let low = 0;
  let high = timesMs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((timesMs[middle] ?? 0) <= atMs) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * Increase within the range, corrected for counter resets and extrapolatedIncrease to the ends of the range as Prometheus does. Null with fewer
 * than two samples.
 */
export function extrapolatedIncrease(samples: RangeSamples, isCounter: boolean): number | null {
  const { timesMs, values, startMs, endMs } = samples;
  const first = values[0];
  const last = values.at(-1);
  const firstMs = timesMs[0];
  const lastMs = timesMs.at(-1);
  if (values.length < 2 || first === undefined || last === undefined || firstMs === undefined || lastMs === undefined) return null;
  let increase = last - first;
  if (isCounter) for (let index = 1; index < values.length; index++) increase += resetCorrection(values, index);
  const sampledMs = lastMs - firstMs;
  const meanStepMs = sampledMs / (values.length - 1);
  const farMs = meanStepMs * 1.1;
  let beforeMs = firstMs - startMs;
  let afterMs = endMs - lastMs;
  if (beforeMs >= farMs) beforeMs = meanStepMs / 2;
  // A counter cannot have been negative: extrapolate no further back than to zero.
  if (isCounter && increase > 0 && first >= 0) beforeMs = Math.min(beforeMs, sampledMs * (first / increase));
  if (afterMs >= farMs) afterMs = meanStepMs / 2;
  return sampledMs > 0 ? increase * ((sampledMs + beforeMs + afterMs) / sampledMs) : null;
}

function resetCorrection(values: readonly number[], index: number): number {
  const before = values[index - 1] ?? 0;
  return (values[index] ?? 0) < before ? before : 0;
}

/** irate() and idelta(): the change between the last two samples, per second or absolute. */
export function lastChange({ timesMs, values }: RangeSamples, isCounter: boolean, perSecond: boolean): number | null {
  const [before, last] = values.slice(-2);
  const [beforeMs, lastMs] = timesMs.slice(-2);
  if (before === undefined || last === undefined || beforeMs === undefined || lastMs === undefined || lastMs <= beforeMs) return null;
  const increase = isCounter && last < before ? last : last - before;
  return perSecond ? (increase * 1_000) / (lastMs - beforeMs) : increase;
}
