/** Incidents in the form of a folder per suite: cases.json, metrics.parquet and, where there are any, spans.parquet, logs.parquet and edges.json. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TimeRange } from "../../src/model/diagnosis.ts";

/** One recorded fault: when it began, and on which series. */
export interface RcaCase {
  id: string;
  /** Seconds. */
  anomaly_ts: number;
  /** Ids of the series with normal data. */
  baseline: string[];
  entry: string;
  slo_metric?: string;
}

/** Cases of one application, with its recordings. */
export interface RcaSuite {
  name: string;
  directory: string;
  cases: RcaCase[];
  edges: [caller: string, callee: string][];
  has: (file: string) => boolean;
}

export function readSuites(directory: string): RcaSuite[] {
  const names = existsSync(join(directory, "cases.json"))
    ? ["."]
    : readdirSync(directory).filter((name) => existsSync(join(directory, name, "cases.json")));
  return names.sort().map((name) => {
    const folder = join(directory, name);
    const edges = join(folder, "edges.json");
    return {
      name,
      directory: folder,
      cases: JSON.parse(readFileSync(join(folder, "cases.json"), "utf8")) as RcaCase[],
      edges: existsSync(edges) ? (JSON.parse(readFileSync(edges, "utf8")) as RcaSuite["edges"]) : [],
      has: (file) => existsSync(join(folder, file)),
    };
  });
}

/** Seconds at which series begin and end. */
export type SeriesTimes = ReadonlyMap<string, { first: number; last: number }>;

/** Before the onset, and after the fault: neither is normal. */
const guardMs = 60_000;
/** Duration of a fault in a recording of a whole day, and the time until its effects are over. */
const faultMs = 180_000;
/** Time after a fault in which its effects may still be seen. */
const recoveryMs = 300_000;
const dayMs = 86_400_000;

/** The arguments of `coral diagnose --between … --baseline …`. */
export function timesOf(one: RcaCase, series: SeriesTimes, shiftMs: (series: string) => number): { before: TimeRange[]; after: TimeRange } {
  const rangeOf = (id: string): TimeRange => {
    const { first, last } = series.get(id) ?? { first: 0, last: 0 };
    return { fromMs: first * 1_000 + shiftMs(id), untilMs: last * 1_000 + shiftMs(id) + 1 };
  };
  const isDay = !series.has(one.id);
  const own = isDay ? one.baseline[0] : one.id;
  if (own === undefined) throw new Error(`Cannot use case ${one.id}: it has no series`);
  const onsetMs = one.anomaly_ts * 1_000 + shiftMs(own);
  const after = { fromMs: onsetMs, untilMs: isDay ? onsetMs + faultMs : rangeOf(own).untilMs };
  const before = one.baseline.flatMap((id) => {
    const whole = rangeOf(id);
    if (id !== own) return [whole];
    return [
      { fromMs: whole.fromMs, untilMs: isDay ? onsetMs - guardMs : onsetMs },
      ...(isDay ? [{ fromMs: onsetMs + recoveryMs, untilMs: whole.untilMs }] : []),
    ];
  });
  return { before: before.filter(({ fromMs, untilMs }) => untilMs > fromMs), after };
}

/** A quiet time of the same case: before its onset, or within the recording of normal data. Null when there is none. */
export function quietTimesOf(
  one: RcaCase,
  index: number,
  series: SeriesTimes,
  shiftMs: (series: string) => number,
): { before: TimeRange[]; after: TimeRange } | null {
  const { before, after } = timesOf(one, series, shiftMs);
  const [usual] = before;
  if (usual === undefined) return null;
  const lengthMs = Math.min(after.untilMs - after.fromMs, (usual.untilMs - usual.fromMs) / 3);
  const isApart = usual.untilMs < after.fromMs - dayMs || usual.fromMs > after.untilMs + dayMs;
  // Separate recordings are divided into slices, one for each case.
  const slices = Math.max(1, Math.floor((usual.untilMs - usual.fromMs) / lengthMs));
  const fromMs = isApart ? usual.fromMs + ((index * 7) % slices) * lengthMs : usual.untilMs - lengthMs;
  const quiet = { fromMs, untilMs: fromMs + lengthMs };
  const rest = before.flatMap((range) => [
    { fromMs: range.fromMs, untilMs: Math.min(range.untilMs, quiet.fromMs - guardMs / 2) },
    { fromMs: Math.max(range.fromMs, quiet.untilMs + guardMs), untilMs: range.untilMs },
  ]);
  return { before: rest.filter((range) => range.untilMs - range.fromMs > guardMs / 2), after: quiet };
}
