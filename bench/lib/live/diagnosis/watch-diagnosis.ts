/** Injects a fault, runs `coral diagnose` every few seconds, and compares its first cause with the truth. */

import type { DiagnosisResult } from "../../../../src/tools/schemas/diagnosis.ts";
import type { LiveWorld } from "../live-world.ts";
import { causeText, isAccusation, judgeAnswer } from "./judge-answer.ts";
import type { ControlTrial, FaultTrial, TrialWorld } from "./trial.ts";

/** Between two diagnoses. */
const pollMs = 3_000;
/** How long a fault lasts at most. */
const faultMaxMs = 60_000;
/** How long a trial without a fault is watched. */
const controlMs = 45_000;
/** A fault ends early when its diagnosis was right in all points for this time. */
const steadyMs = 9_000;
/** How long a fault lasts at least. */
const leastFaultMs = 24_000;
/** Before it, clients are not under the fault before. */
const calmMs = 20_000;
/** The onset that is found may be this much earlier than the fault. */
const onsetReachMs = 30_000;
/** Thresholds from which the entry's indicator has moved: slower by this factor, or this many more failures. */
const leastSlower = 1.25;
/** Share of requests. */
const minFailed = 0.01;

/** What the diagnosis said during one trial. */
export interface TrialResult {
  name: string;
  isControl: boolean;
  skipped?: string;
  /** Whether clients at the entry were affected; a fault without effect there does not count. */
  isMoved: boolean;
  startMs: number;
  detectedMs: number | null;
  isServiceRight: boolean;
  isKindRight: boolean;
  isPointerRight: boolean;
  /** Wrong first causes, in order. */
  accused: string[];
  /** The last first cause. */
  seen: string;
  /** When it was asked: the same can be asked again of the kept data. */
  askedMs: number[];
  last: DiagnosisResult | null;
}

const none = { isMoved: false, detectedMs: null, isServiceRight: false, isKindRight: false, isPointerRight: false, last: null };

function emptyResult(name: string, isControl: boolean): TrialResult {
  return { ...none, name, isControl, startMs: Date.now(), accused: [], seen: "", askedMs: [] };
}

/** `previous`: the fault before this one. Answers about it, as long as this one does not show, are right. */
export async function watchFaultTrial(trial: TrialWorld, fault: FaultTrial, previous?: FaultTrial): Promise<TrialResult> {
  const skipped = fault.skipReason?.(trial);
  const result = emptyResult(fault.name, false);
  if (skipped !== undefined) return { ...result, skipped };
  const { world, colony } = trial;
  await fault.inject(trial);
  let allRightMs: number | null = null;
  try {
    for (;;) {
      await colony.wait(pollMs);
      const atMs = Date.now();
      const answer = await colony.diagnose();
      const isPrevious =
        previous !== undefined && Date.parse(answer.from) < result.startMs && judgeAnswer(world, previous, answer).isServiceRight;
      if (isPrevious && !judgeAnswer(world, fault, answer).isServiceRight) result.askedMs.push(atMs);
      else takeAnswer(result, world, fault, { answer, askedMs: atMs });
      const isAllRight = result.isServiceRight && result.isKindRight && result.isPointerRight;
      allRightMs = isAllRight ? (allRightMs ?? Date.now()) : null;
      const lastedMs = Date.now() - result.startMs;
      if (lastedMs >= faultMaxMs || (lastedMs >= leastFaultMs && allRightMs !== null && Date.now() - allRightMs >= steadyMs)) break;
    }
  } finally {
    await fault.repair(trial);
  }
  return { ...result, isMoved: hasMoved(world, result.startMs) };
}

/** The newest answer counts; detected is what has been right since then. */
export function takeAnswer(
  result: TrialResult,
  world: Parameters<typeof judgeAnswer>[0],
  fault: Parameters<typeof judgeAnswer>[1],
  { answer, askedMs }: { answer: DiagnosisResult; askedMs: number },
): void {
  const { isWrong, text, ...marks } = judgeAnswer(world, fault, answer);
  if (isWrong && !result.accused.includes(text)) result.accused.push(text);
  result.askedMs.push(askedMs);
  Object.assign(result, marks, { seen: text, last: answer });
  // The fault before may have been of the same service: its answer is no detection of this one.
  const isOfThis = Date.parse(answer.from) >= result.startMs - onsetReachMs;
  if (!marks.isServiceRight) result.detectedMs = null;
  else if (isOfThis) result.detectedMs ??= askedMs - result.startMs;
}

/** Everyone who is accused meanwhile is innocent. */
export async function watchControlTrial(trial: TrialWorld, control: ControlTrial): Promise<TrialResult> {
  const skipped = control.skipReason?.(trial);
  const result = emptyResult(control.name, true);
  if (skipped !== undefined) return { ...result, skipped };
  await control.inject(trial);
  try {
    while (Date.now() - result.startMs < controlMs) {
      await trial.colony.wait(pollMs);
      result.askedMs.push(Date.now());
      takeControlAnswer(result, trial.world, await trial.colony.diagnose());
    }
  } finally {
    await control.repair(trial);
  }
  return result;
}

export function takeControlAnswer(result: TrialResult, world: Parameters<typeof causeText>[0], answer: DiagnosisResult): void {
  result.seen = causeText(world, answer);
  if (!isAccusation(answer)) return;
  // The answer that accused is the one to look at.
  result.last = answer;
  if (!result.accused.includes(result.seen)) result.accused.push(result.seen);
}

function hasMoved({ seen }: LiveWorld, startMs: number): boolean {
  const middleOf = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return [...new Set(seen.flatMap(({ routes }) => Object.keys(routes)))].some((route) => {
    const of = (isAfter: boolean) =>
      seen
        .filter(({ atMs }) => atMs > startMs + 3_000 === isAfter && atMs > startMs - calmMs)
        .flatMap(({ routes }) => (routes[route] ? [routes[route]] : []));
    const [before, after] = [of(false), of(true)];
    const failed = (counts: typeof before): number =>
      counts.reduce((sum, { errors }) => sum + errors, 0) /
      Math.max(
        1,
        counts.reduce((sum, { requests }) => sum + requests, 0),
      );
    const ms = (counts: typeof before): number => middleOf(counts.map((one) => one.ms / one.requests));
    return failed(after) > failed(before) + minFailed || ms(after) > leastSlower * ms(before) || after.length < before.length / 4;
  });
}
