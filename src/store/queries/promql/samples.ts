/** Values at times, and what PromQL makes of the values within a range. */

export type Labels = Readonly<Record<string, string>>;

/** In the order of time; milliseconds since 1970. Null: the series ended there. */
export interface PromSeries {
  labels: Labels;
  timesMs: number[];
  values: (number | null)[];
}

/** Values of one series within a range. */
export interface RangeSamples {
  timesMs: readonly number[];
  values: readonly number[];
  /** After this, up to and with the end. */
  startMs: number;
  endMs: number;
}

/** How old the newest value may be to count as the value of now. */
export const lookBackMs = 5 * 60_000;

/** The newest value at a time, with its own time. */
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

/** By how much it rose within the range, over restarts, reaching out to the range's ends as Prometheus does. Null with fewer than two values. */
export function extrapolated(samples: RangeSamples, isCounter: boolean): number | null {
  const { timesMs, values, startMs, endMs } = samples;
  const first = values[0];
  const last = values.at(-1);
  const firstMs = timesMs[0];
  const lastMs = timesMs.at(-1);
  if (values.length < 2 || first === undefined || last === undefined || firstMs === undefined || lastMs === undefined) return null;
  let risen = last - first;
  if (isCounter) for (let index = 1; index < values.length; index++) risen += restartBefore(values, index);
  const sampledMs = lastMs - firstMs;
  const meanStepMs = sampledMs / (values.length - 1);
  const farMs = meanStepMs * 1.1;
  let beforeMs = firstMs - startMs;
  let afterMs = endMs - lastMs;
  if (beforeMs >= farMs) beforeMs = meanStepMs / 2;
  // A counter cannot have been below zero.
  if (isCounter && risen > 0 && first >= 0) beforeMs = Math.min(beforeMs, sampledMs * (first / risen));
  if (afterMs >= farMs) afterMs = meanStepMs / 2;
  return sampledMs > 0 ? risen * ((sampledMs + beforeMs + afterMs) / sampledMs) : null;
}

function restartBefore(values: readonly number[], index: number): number {
  const before = values[index - 1] ?? 0;
  return (values[index] ?? 0) < before ? before : 0;
}

/** From the last two values. `perSecond` or as a difference. */
export function lastStep({ timesMs, values }: RangeSamples, isCounter: boolean, perSecond: boolean): number | null {
  const [before, last] = values.slice(-2);
  const [beforeMs, lastMs] = timesMs.slice(-2);
  if (before === undefined || last === undefined || beforeMs === undefined || lastMs === undefined || lastMs <= beforeMs) return null;
  const risen = isCounter && last < before ? last : last - before;
  return perSecond ? (risen * 1_000) / (lastMs - beforeMs) : risen;
}
