/**
 * Tests whether the level of an autocorrelated series has changed: latency, failures, CPU. Requests of one minute slow down
 * together, so they are not independent samples; the test compares blocks of time instead. The time before gives the variance
 * between blocks and the usual length of a deviation. Deterministic.
 */

import { studentTail } from "./significance.ts";

export interface BlockTest {
  /** Trimmed mean of each side, in the unit of the values. */
  before: number;
  after: number;
  /** Two-sided p-value: how often the series makes a difference this large by itself. */
  pValue: number;
  /** Largest deviation from the centre among stretches before that are as long as the time after; null with fewer than `minPieces`. */
  usual: number | null;
  /** Whether the time before is long enough, given how long its deviations last, to estimate what is usual. */
  isProven: boolean;
  /** Share of blocks after that exceed three quarters of those before, in the direction of the change. */
  persistent: number;
}

export type Centre = (values: readonly number[]) => number;

export const minBlocks = { before: 6, after: 4 };
const minPieces = 8;
/** Without pieces: the least number of blocks before, and of independent blocks that they amount to. */
const proven = { blocks: 24, independent: 8 };
/** Standard error of a trimmed mean relative to that of a mean. */
const centreVariance = 1.3;
/** Floor of the noise estimate, as a share of the plain standard deviation: a trimmed mean hides bursts, but bursts before predict bursts after. */
const outlierWeight = 0.7;
/** Within a short time, fewer independent blocks than this cannot be distinguished from more. */
const minIndependent = 4;
const maxCorrelation = 0.97;

/** Blocks in the order of time, all of the same length. Null with too few blocks on a side. */
export function compareBlocks(before: readonly number[], after: readonly number[], centre: Centre = median): BlockTest | null {
  if (before.length < minBlocks.before || after.length < minBlocks.after) return null;
  const [centreBefore, centreAfter] = [centre(before), centre(after)];
  const spread = Math.max(robustSpread(before), robustSpread(after), deviation(before) * outlierWeight);
  const correlation = autocorrelation(before);
  const difference = withoutTrend({ before, countAfter: after.length, difference: centreAfter - centreBefore, spread, correlation });
  const pieces = piecesOf(before, after.length).map((piece) => centre(piece));
  const usual = pieces.length < minPieces ? null : Math.max(...pieces.map((piece) => Math.abs(piece - centreBefore)));
  const base = { before: centreBefore, after: centreAfter, usual, persistent: persistence(before, after, Math.sign(difference)) };
  const isLong = pieces.length >= minPieces;
  if (spread === 0) return { ...base, isProven: isLong || before.length >= proven.blocks, pValue: difference === 0 ? 1 : 0 };
  const meanVariance = (count: number): number => (centreVariance * spread ** 2 * inflation(count, correlation)) / count;
  // Stretches as long as the time after reveal slow deviations that neighbouring blocks do not show.
  const varianceAfter = Math.max(meanVariance(after.length), isLong ? deviation(pieces) ** 2 : 0);
  const varianceBefore = meanVariance(before.length);
  const independent = Math.min(before.length, Math.max(minIndependent, (centreVariance * spread ** 2) / varianceBefore));
  const t = Math.abs(difference) / Math.sqrt(varianceAfter + varianceBefore);
  const isProven = isLong || (before.length >= proven.blocks && independent >= proven.independent);
  return { ...base, isProven, pValue: Math.min(1, 2 * studentTail(t, independent - 1)) };
}

export function median(values: readonly number[]): number {
  return quantile(
    [...values].sort((a, b) => a - b),
    0.5,
  );
}

/** Mean of the middle half. Ignores short bursts, and unlike a median does not stay at zero where failures are rare. */
export function middleMean(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const cut = Math.floor(sorted.length / 4);
  return mean(sorted.slice(cut, sorted.length - cut));
}

/** Standard deviation estimated from the median absolute deviation, which ignores short bursts. */
function robustSpread(values: readonly number[]): number {
  const centre = median(values);
  return 1.4826 * median(values.map((value) => Math.abs(value - centre)));
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

function quantile(sorted: readonly number[], share: number): number {
  const at = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)] ?? 0, sorted[Math.ceil(at)] ?? 0];
  return low + (high - low) * (at - Math.floor(at));
}

function deviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1));
}

/** Lag-1 autocorrelation, 0..`maxCorrelation`, corrected for its downward bias in short series. */
function autocorrelation(values: readonly number[]): number {
  const centre = mean(values);
  let [product, square] = [0, 0];
  for (const [index, value] of values.entries()) {
    square += (value - centre) ** 2;
    const next = values[index + 1];
    if (next !== undefined) product += (value - centre) * (next - centre);
  }
  // Rounding errors do not count as variation.
  if (square <= 1e-18 * values.length) return 0;
  const found = product / square;
  return Math.min(maxCorrelation, Math.max(0, found + (1 + 3 * found) / values.length));
}

/** Factor by which autocorrelation increases the variance of a mean of `count` values. */
function inflation(count: number, correlation: number): number {
  let [sum, power] = [1, 1];
  for (let lag = 1; lag < count; lag++) {
    power *= correlation;
    sum += 2 * (1 - lag / count) * power;
  }
  return sum;
}

function piecesOf(values: readonly number[], length: number): number[][] {
  const pieces: number[][] = [];
  for (let end = values.length; end >= length; end -= length) pieces.push(values.slice(end - length, end));
  return pieces;
}

interface Drifting {
  before: readonly number[];
  countAfter: number;
  difference: number;
  spread: number;
  correlation: number;
}

/** The part of a difference that continuing the trend of the time before does not explain; at most the difference itself. */
function withoutTrend({ before, countAfter, difference, spread, correlation }: Drifting): number {
  const slope = slopeOf(before);
  // Standard error of a slope through this many points.
  const error = spread * Math.sqrt((12 * inflation(before.length, correlation)) / before.length ** 3);
  if (Math.sign(slope) !== Math.sign(difference) || Math.abs(slope) < 2 * error) return difference;
  const drift = (slope * (before.length + countAfter)) / 2;
  return Math.abs(drift) >= Math.abs(difference) ? 0 : difference - drift;
}

const slopePoints = 40;

/** Theil–Sen slope per block, over at most `slopePoints` means to keep long series cheap. */
function slopeOf(values: readonly number[]): number {
  const length = Math.ceil(values.length / slopePoints);
  const points = piecesOf(values, length).map(mean).reverse();
  const slopes: number[] = [];
  for (let from = 0; from < points.length; from++)
    for (let to = from + 1; to < points.length; to++) slopes.push(((points[to] ?? 0) - (points[from] ?? 0)) / ((to - from) * length));
  return slopes.length === 0 ? 0 : median(slopes);
}

function persistence(before: readonly number[], after: readonly number[], direction: number): number {
  const sorted = [...before].sort((a, b) => a - b);
  const limit = quantile(sorted, direction > 0 ? 0.75 : 0.25);
  return after.filter((value) => (value - limit) * direction > 0).length / after.length;
}
