/** Chooses the time range of a diagnosis and its baseline. */

import { CoralError } from "../../base/errors.ts";
import { parseDurationMs } from "../../base/units.ts";
import type { OnsetFact, TimeRange } from "../../model/diagnosis.ts";

export interface TimesInput {
  since: number;
  at?: string | undefined;
  between?: string | undefined;
  baseline?: string | undefined;
}

export interface DiagnosedTimes {
  before: TimeRange[];
  after: TimeRange;
  isOnsetFound: boolean;
  /** The trouble has ended: `after` ends with it. */
  isOver: boolean;
}

/** Gap between baseline and onset: trouble may begin a little before it is visible. */
const guardMs = 30_000;
const usualMs = 60 * 60_000;
/** With less data before the onset there is no baseline. */
export const leastUsualMs = 90_000;
/** Least length without an onset: shorter ranges differ by chance. */
const leastQuietMs = 60_000;
/** Trouble that has just begun: a few seconds suffice, and healthy time before would dilute them. */
const leastAfterMs = 15_000;

export async function timesOf(
  input: TimesInput,
  nowMs: number,
  onset: (request: { untilMs: number }) => Promise<OnsetFact>,
): Promise<DiagnosedTimes> {
  const given = input.between === undefined ? undefined : rangeIn(input.between, nowMs, "between");
  const askedMs = given?.untilMs ?? (input.at === undefined ? nowMs : timeIn(input.at, nowMs, "at"));
  const found = await onset({ untilMs: askedMs });
  const endMs = given === undefined ? found.endMs : null;
  const untilMs = endMs ?? askedMs;
  // A young colony reserves two thirds of its data for the baseline.
  const sinceMs = Math.floor(Math.min(input.since, (untilMs - (found.seenSinceMs ?? 0)) / 3));
  const fromMs = given?.fromMs ?? Math.min(found.onsetMs ?? untilMs - Math.max(sinceMs, leastQuietMs), untilMs - leastAfterMs);
  const usualEndMs = fromMs - guardMs;
  const usual = input.baseline === undefined ? undefined : rangeIn(input.baseline, nowMs, "baseline");
  // Time before the first data is not part of the baseline.
  const before = usual ?? { fromMs: Math.max(usualEndMs - usualMs, found.seenSinceMs ?? Number.POSITIVE_INFINITY), untilMs: usualEndMs };
  const quiet = usual === undefined ? without(before, found.earlier) : [before];
  return {
    before: before.untilMs > before.fromMs ? quiet : [],
    after: { fromMs, untilMs },
    isOnsetFound: given === undefined && found.onsetMs !== null,
    isOver: endMs !== null,
  };
}

/** The range without earlier trouble, or unchanged when too little would be left. */
function without(range: TimeRange, trouble: readonly TimeRange[]): TimeRange[] {
  let { fromMs } = range;
  const left: TimeRange[] = [];
  for (const one of trouble) {
    if (one.fromMs > fromMs) left.push({ fromMs, untilMs: Math.min(one.fromMs, range.untilMs) });
    fromMs = Math.max(fromMs, one.untilMs);
    if (fromMs >= range.untilMs) break;
  }
  if (fromMs < range.untilMs) left.push({ fromMs, untilMs: range.untilMs });
  const leftMs = left.reduce((sum, one) => sum + one.untilMs - one.fromMs, 0);
  return leftMs >= Math.max(leastUsualMs, (range.untilMs - range.fromMs) / 4) ? left : [range];
}

/** `14:05..14:20`, `2026-01-02T03:04:05Z..10m`. */
function rangeIn(text: string, nowMs: number, name: string): TimeRange {
  const [from = "", until = "", ...rest] = text.split("..");
  if (until === "" || rest.length > 0) throw invalid(text, name, "write two times with .. between them, such as 40m..25m");
  const range = { fromMs: timeIn(from, nowMs, name), untilMs: timeIn(until, nowMs, name) };
  if (range.untilMs <= range.fromMs) throw invalid(text, name, "the second time is not after the first");
  return range;
}

/** An ISO 8601 time, or a duration before now: `20m`. */
function timeIn(text: string, nowMs: number, name: string): number {
  const atMs = /^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/.test(text) ? nowMs - parseDurationMs(text) : Date.parse(text);
  if (!Number.isFinite(atMs)) throw invalid(text, name, "write a time such as 2026-01-02T03:04:05Z, or how long ago: 20m");
  return Math.min(atMs, nowMs);
}

function invalid(text: string, name: string, fix: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot use ${name} "${text}": ${fix}`, details: { field: name } });
}
