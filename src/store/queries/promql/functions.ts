/** Functions by name: what they take, and what they make of it. */

import { extrapolated, lastStep, type RangeSamples } from "./samples.ts";

export type ArgumentKind = "range" | "vector" | "scalar";

export interface PromFunction {
  args: readonly ArgumentKind[];
  /** How many of the last arguments may be left out. */
  optional?: number;
  /** Of one series over a range. */
  overRange?: (samples: RangeSamples) => number | null;
  /** Of one value, with the scalars after or before it. */
  ofValue?: (value: number, ...scalars: number[]) => number;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const nonEmpty =
  (read: (values: readonly number[]) => number) =>
  ({ values }: RangeSamples): number | null =>
    values.length === 0 ? null : read(values);
const overRange = (read: (samples: RangeSamples) => number | null): PromFunction => ({ args: ["range"], overRange: read });
const ofValue = (
  read: (value: number, ...scalars: number[]) => number,
  args: readonly ArgumentKind[] = ["vector"],
  optional = 0,
): PromFunction => ({
  args,
  optional,
  ofValue: read,
});

function perSecond(samples: RangeSamples): number | null {
  const risen = extrapolated(samples, true);
  return risen === null ? null : (risen * 1_000) / (samples.endMs - samples.startMs);
}

/** The evaluator knows those without a body. */
export const functions: Readonly<Record<string, PromFunction>> = {
  rate: overRange(perSecond),
  increase: overRange((samples) => extrapolated(samples, true)),
  irate: overRange((samples) => lastStep(samples, true, true)),
  delta: overRange((samples) => extrapolated(samples, false)),
  idelta: overRange((samples) => lastStep(samples, false, false)),
  sum_over_time: overRange(nonEmpty(sum)),
  avg_over_time: overRange(nonEmpty((values) => sum(values) / values.length)),
  min_over_time: overRange(nonEmpty((values) => values.reduce((least, value) => Math.min(least, value)))),
  max_over_time: overRange(nonEmpty((values) => values.reduce((most, value) => Math.max(most, value)))),
  count_over_time: overRange(nonEmpty((values) => values.length)),
  last_over_time: overRange(nonEmpty((values) => values.at(-1) ?? Number.NaN)),
  histogram_quantile: { args: ["scalar", "vector"] },
  abs: ofValue(Math.abs),
  ceil: ofValue(Math.ceil),
  floor: ofValue(Math.floor),
  sqrt: ofValue(Math.sqrt),
  exp: ofValue(Math.exp),
  ln: ofValue(Math.log),
  log2: ofValue(Math.log2),
  log10: ofValue(Math.log10),
  round: ofValue((value, to = 1) => Math.floor(value / to + 0.5) * to, ["vector", "scalar"], 1),
  clamp_min: ofValue((value, least = 0) => Math.max(value, least), ["vector", "scalar"]),
  clamp_max: ofValue((value, most = 0) => Math.min(value, most), ["vector", "scalar"]),
  scalar: { args: ["vector"] },
  vector: { args: ["scalar"] },
  absent: { args: ["vector"] },
  time: { args: [] },
};
