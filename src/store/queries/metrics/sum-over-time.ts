/** Adds up-down sums of several processes: their total at each time. */

import type { SeriesPoint } from "./load-series.ts";

/** Null where no series has a value. */
export interface SumOverTime {
  /** Value at the newest point. */
  last: number | null;
  /** Time-weighted mean. */
  mean: number | null;
  min: number | null;
  max: number | null;
  /** Mean of each step. */
  points: (number | null)[];
}

/** A point stays valid for this many intervals of its series. After that the process is assumed to have exited. */
const heldIntervals = 2;
/** How long the point of a single-point series stays valid. */
const heldAloneUs = 5 * 60_000_000;

/** How long a point stays valid when no other follows it. */
export function heldUs(points: readonly Pick<SeriesPoint, "timeUs">[]): number {
  const first = points[0]?.timeUs ?? 0;
  const last = points.at(-1)?.timeUs ?? 0;
  return points.length < 2 || last === first ? heldAloneUs : (heldIntervals * (last - first)) / (points.length - 1);
}

interface Change {
  timeUs: number;
  series: number;
  value: number | null;
  isPoint: boolean;
}

/** Adds the last value of each series. Points before `startUs` give the value at the start. */
export function sumOverTime(
  series: readonly { points: readonly SeriesPoint[] }[],
  { startUs, endUs, stepUs, steps }: { startUs: number; endUs: number; stepUs: number; steps: number },
): SumOverTime {
  const changes = series.flatMap(({ points }, index) => changesOf(points, index)).sort((a, b) => a.timeUs - b.timeUs);
  const newestUs = changes.findLast(({ isPoint }) => isPoint)?.timeUs ?? startUs;
  const parts = Array.from({ length: steps }, () => new WeightedMean());
  const whole = new WeightedMean();
  const values = new Map<number, number>();
  let total = 0;
  let last: number | null = null;
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const [index, { timeUs, series: of, value }] of changes.entries()) {
    total += (value ?? 0) - (values.get(of) ?? 0);
    if (value === null) values.delete(of);
    else values.set(of, value);
    const nextUs = changes[index + 1]?.timeUs ?? Number.POSITIVE_INFINITY;
    if (timeUs <= newestUs) last = values.size === 0 ? null : total;
    if (nextUs === timeUs || nextUs <= startUs || timeUs > endUs || values.size === 0) continue;
    const fromUs = Math.max(startUs, timeUs);
    const toUs = Math.min(endUs, nextUs);
    min = Math.min(min, total);
    max = Math.max(max, total);
    whole.add(total, toUs - fromUs);
    for (let part = Math.floor((fromUs - startUs) / stepUs); part < steps && startUs + part * stepUs <= toUs; part++)
      parts[part]?.add(total, Math.min(toUs, startUs + (part + 1) * stepUs) - Math.max(fromUs, startUs + part * stepUs));
  }
  const isKnown = max >= min;
  return { last, mean: whole.value, min: isKnown ? min : null, max: isKnown ? max : null, points: parts.map(({ value }) => value) };
}

function changesOf(points: readonly SeriesPoint[], series: number): Change[] {
  const holdUs = heldUs(points);
  const changes: Change[] = [];
  for (const [index, { timeUs, value, merged }] of points.entries()) {
    const known = merged && index < points.length - 1 ? merged.sum / merged.count : value;
    changes.push({ timeUs, series, value: known !== null && Number.isFinite(known) ? known : null, isPoint: true });
    const nextUs = points[index + 1]?.timeUs ?? Number.POSITIVE_INFINITY;
    if (nextUs > timeUs + holdUs) changes.push({ timeUs: timeUs + holdUs, series, value: null, isPoint: false });
  }
  return changes;
}

class WeightedMean {
  #sum = 0;
  #weight = 0;
  #alone: number | null = null;

  get value(): number | null {
    return this.#weight > 0 ? this.#sum / this.#weight : this.#alone;
  }

  add(value: number, weight: number): void {
    this.#sum += value * weight;
    this.#weight += weight;
    this.#alone = value;
  }
}
