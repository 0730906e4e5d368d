/** PromQL functions by name: their parameter types and their implementation. */

import type { ValueType } from "./check-types.ts";
import { extrapolatedIncrease, lastChange, type RangeSamples } from "./samples.ts";
import { changes, linearFit, maximum, mean, minimum, quantile, resets, smoothed, variance } from "./statistics.ts";

const dateOf = (seconds: number): Date => new Date(Math.trunc(seconds) * 1_000);

function dayOfYear(seconds: number): number {
  const date = dateOf(seconds);
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
}

function daysInMonth(seconds: number): number {
  const date = dateOf(seconds);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
}

/** Calendar parts in UTC of a timestamp in seconds since 1970. NaN when the timestamp is out of range. */
const datePart = {
  year: (seconds: number): number => dateOf(seconds).getUTCFullYear(),
  month: (seconds: number): number => dateOf(seconds).getUTCMonth() + 1,
  dayOfMonth: (seconds: number): number => dateOf(seconds).getUTCDate(),
  /** 0 is Sunday. */
  dayOfWeek: (seconds: number): number => dateOf(seconds).getUTCDay(),
  dayOfYear,
  daysInMonth,
  hour: (seconds: number): number => dateOf(seconds).getUTCHours(),
  minute: (seconds: number): number => dateOf(seconds).getUTCMinutes(),
};

/** `atMs` is the evaluation time. */
type OverRange = (samples: RangeSamples, scalars: readonly number[], atMs: number) => number | null;
type OfValue = (value: number, ...scalars: number[]) => number;

export interface PromFunction {
  args: readonly ValueType[];
  /** How many trailing arguments are optional. */
  optional?: number;
  /** The last argument may be absent or repeated. */
  isVariadic?: boolean;
  /** Default: instant vector. */
  returns?: ValueType;
  /** Computes a value from the samples of one series in a range; null drops the series. */
  overRange?: OverRange;
  /** The result keeps the metric name. */
  keepsName?: boolean;
  /**
   * Computes a value from one sample and the scalar arguments after it. If the vector argument is optional and absent, the sample is the
   * evaluation time.
   */
  ofValue?: OfValue;
}

const overRange = (read: OverRange, args: readonly ValueType[] = ["range"]): PromFunction => ({ args, overRange: read });
const nonEmpty = (read: (values: readonly number[], scalars: readonly number[]) => number): OverRange => {
  return ({ values }, scalars) => (values.length === 0 ? null : read(values, scalars));
};
const ofValue = (read: OfValue, args: readonly ValueType[] = ["vector"], optional = 0): PromFunction => ({ args, optional, ofValue: read });
const ofDate = (part: keyof typeof datePart): PromFunction => ofValue((seconds) => datePart[part](seconds), ["vector"], 1);

function perSecond(samples: RangeSamples): number | null {
  const increase = extrapolatedIncrease(samples, true);
  return increase === null ? null : (increase * 1_000) / (samples.endMs - samples.startMs);
}

const ofRanges: Readonly<Record<string, PromFunction>> = {
  rate: overRange(perSecond),
  increase: overRange((samples) => extrapolatedIncrease(samples, true)),
  irate: overRange((samples) => lastChange(samples, true, true)),
  delta: overRange((samples) => extrapolatedIncrease(samples, false)),
  idelta: overRange((samples) => lastChange(samples, false, false)),
  deriv: overRange((samples) => linearFit(samples, samples.timesMs[0] ?? 0)?.slope ?? null),
  predict_linear: overRange(
    (samples, [aheadS = 0], atMs) => {
      const fit = linearFit(samples, atMs);
      return fit && fit.slope * aheadS + fit.intercept;
    },
    ["range", "scalar"],
  ),
  double_exponential_smoothing: overRange(
    ({ values }, [smoothing = 0, trend = 0]) => smoothed(values, smoothing, trend),
    ["range", "scalar", "scalar"],
  ),
  changes: overRange(nonEmpty(changes)),
  resets: overRange(nonEmpty(resets)),
  sum_over_time: overRange(nonEmpty((values) => values.reduce((total, value) => total + value, 0))),
  avg_over_time: overRange(nonEmpty(mean)),
  min_over_time: overRange(nonEmpty(minimum)),
  max_over_time: overRange(nonEmpty(maximum)),
  count_over_time: overRange(nonEmpty((values) => values.length)),
  stdvar_over_time: overRange(nonEmpty(variance)),
  stddev_over_time: overRange(nonEmpty((values) => Math.sqrt(variance(values)))),
  quantile_over_time: overRange(
    nonEmpty((values, [share = Number.NaN]) => quantile(values, share)),
    ["scalar", "range"],
  ),
  present_over_time: overRange(nonEmpty(() => 1)),
  last_over_time: { ...overRange(nonEmpty((values) => values.at(-1) ?? Number.NaN)), keepsName: true },
  first_over_time: { ...overRange(nonEmpty((values) => values[0] ?? Number.NaN)), keepsName: true },
};

/** Rounds half up. Divides by the inverse as Prometheus does, so that multiples of 0.1 give the same digits. */
function round(value: number, to = 1): number {
  const inverse = 1 / to;
  return Math.floor(value * inverse + 0.5) / inverse;
}

const ofValues: Readonly<Record<string, PromFunction>> = {
  abs: ofValue(Math.abs),
  ceil: ofValue(Math.ceil),
  floor: ofValue(Math.floor),
  sqrt: ofValue(Math.sqrt),
  exp: ofValue(Math.exp),
  ln: ofValue(Math.log),
  log2: ofValue(Math.log2),
  log10: ofValue(Math.log10),
  sgn: ofValue(Math.sign),
  sin: ofValue(Math.sin),
  cos: ofValue(Math.cos),
  tan: ofValue(Math.tan),
  asin: ofValue(Math.asin),
  acos: ofValue(Math.acos),
  atan: ofValue(Math.atan),
  sinh: ofValue(Math.sinh),
  cosh: ofValue(Math.cosh),
  tanh: ofValue(Math.tanh),
  asinh: ofValue(Math.asinh),
  acosh: ofValue(Math.acosh),
  atanh: ofValue(Math.atanh),
  deg: ofValue((value) => (value * 180) / Math.PI),
  rad: ofValue((value) => (value * Math.PI) / 180),
  round: ofValue(round, ["vector", "scalar"], 1),
  clamp: ofValue((value, low = 0, high = 0) => Math.max(low, Math.min(high, value)), ["vector", "scalar", "scalar"]),
  clamp_min: ofValue((value, low = 0) => Math.max(value, low), ["vector", "scalar"]),
  clamp_max: ofValue((value, high = 0) => Math.min(value, high), ["vector", "scalar"]),
  year: ofDate("year"),
  month: ofDate("month"),
  day_of_month: ofDate("dayOfMonth"),
  day_of_week: ofDate("dayOfWeek"),
  day_of_year: ofDate("dayOfYear"),
  days_in_month: ofDate("daysInMonth"),
  hour: ofDate("hour"),
  minute: ofDate("minute"),
};

/** Functions that the evaluator implements itself. */
const special: Readonly<Record<string, PromFunction>> = {
  histogram_quantile: { args: ["scalar", "vector"] },
  label_replace: { args: ["vector", "text", "text", "text", "text"] },
  label_join: { args: ["vector", "text", "text", "text"], optional: 1, isVariadic: true },
  scalar: { args: ["vector"], returns: "scalar" },
  vector: { args: ["scalar"] },
  absent: { args: ["vector"] },
  absent_over_time: { args: ["range"] },
  timestamp: { args: ["vector"] },
  sort: { args: ["vector"] },
  sort_desc: { args: ["vector"] },
  time: { args: [], returns: "scalar" },
  pi: { args: [], returns: "scalar" },
};

export const functions: Readonly<Record<string, PromFunction>> = { ...ofRanges, ...ofValues, ...special };
