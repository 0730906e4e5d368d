/** Runs faults and controls, in an order that the seed determines, in one world that a real `coral up` observes. */

import { spawn } from "node:child_process";
import { join } from "node:path";
import { Dice } from "../../health-world.ts";
import { bpfProblem } from "../../request-watch.ts";
import { LiveColony } from "../live-colony.ts";
import { LiveWorld, missingPrograms } from "../live-world.ts";
import { controlTrials } from "./control-trials.ts";
import { faultTrials } from "./fault-trials.ts";
import { KeptTrials } from "./kept-trials.ts";
import { SlowDisk } from "./slow-disk.ts";
import type { FaultTrial, TrialWorld } from "./trial.ts";
import { type TrialResult, watchControlTrial, watchFaultTrial } from "./watch-diagnosis.ts";

/** Which trials to run, and how often. */
export interface LiveDiagnosisOptions {
  seed: number;
  /** Substrings of the names of trials to run; empty: all. */
  only: readonly string[];
  warmUpMs: number;
  /** Rest after each repair. */
  restMs: number;
  /** How often each fault and each control is tried, over all runs that share a folder. */
  rounds: { faults: number; controls: number };
  /** Nothing new begins when less than a trial is left of it; what is left over is for the next run with the same folder. */
  maxMs: number;
  /** Held while a fault lasts, so that benchmarks on one machine take turns. */
  lock?: string | undefined;
  /** Directory that keeps the colony's data and the results; a later run continues with them. */
  keep?: string | undefined;
}

/** Results of all trials of one run. */
export interface LiveDiagnosisRun {
  skipped?: string;
  results: TrialResult[];
}

/** About the longest trial; its rest may be cut. */
const trialMs = 65_000;
/** Data of a fault that has just ended accuse rightly: controls come first, after the warm-up. */
const controlRestMs = 5_000;

/** All trials run in one world, in random order. Each fault is repaired before the next trial. */
export async function runLiveDiagnosis(options: LiveDiagnosisOptions): Promise<LiveDiagnosisRun> {
  const { seed, warmUpMs, restMs, keep, lock } = options;
  const skipped = missingPrograms() ?? bpfProblem();
  if (skipped !== undefined) return { skipped, results: [] };
  const untilMs = performance.now() + options.maxMs;
  const kept = new KeptTrials(keep, seed);
  const { faults, controls } = chosen(options, kept);
  if (faults.length + controls.length === 0) return { results: kept.results };
  using orders = SlowDisk.make() ?? undefined;
  using payments = SlowDisk.make() ?? undefined;
  await using colony = await LiveColony.start(keep === undefined ? undefined : join(keep, "home"));
  const disks = { ...(orders ? { orders: orders.path } : {}), ...(payments ? { payments: payments.path } : {}) };
  const directory = keep === undefined ? undefined : join(keep, "world");
  await using world = await new LiveWorld(seed, { disks, hasEdge: true, otlpUrl: colony.otlpUrl, directory }).start();
  const trial: TrialWorld = { world, colony, disks: { orders: orders ?? null, payments: payments ?? null } };
  progress(`world ${Object.entries(world.names).flat().join(" ")}; ${faults.length} faults, ${controls.length} controls`);
  await colony.wait(warmUpMs);
  const isTime = (): boolean => performance.now() + trialMs < untilMs;
  for (const control of controls) {
    if (!isTime()) break;
    progress(`${control.name} begins`);
    kept.add(shown(await watchControlTrial(trial, control)));
    await colony.wait(controlRestMs);
  }
  let previous: FaultTrial | undefined;
  for (const fault of faults) {
    if (!isTime()) break;
    using _ = await hold(lock);
    progress(`${fault.name} begins`);
    kept.add(shown(await watchFaultTrial(trial, fault, previous)));
    previous = fault;
    await colony.wait(restMs);
  }
  return { results: kept.results };
}

/** In the order that the seed chooses, without what has been tried often enough. */
function chosen({ seed, only, rounds }: LiveDiagnosisOptions, kept: KeptTrials) {
  const dice = new Dice(seed + 2);
  const isWanted = ({ name }: { name: string }): boolean => only.length === 0 || only.some((part) => name.includes(part));
  const times = (count: number, name: string): number => Math.max(0, count - kept.timesTried(name));
  const due = <T extends { name: string }>(trials: readonly T[], count: number): T[] =>
    trials.flatMap((one) => Array.from({ length: times(count, one.name) }, () => one));
  return {
    faults: shuffled(due(faultTrials.filter(isWanted), rounds.faults), dice),
    controls: shuffled(due(controlTrials.filter(isWanted), rounds.controls), dice),
  };
}

function shuffled<T>(items: readonly T[], dice: Dice): T[] {
  const left = [...items];
  return items.flatMap(() => left.splice(Math.floor(dice.between(0, left.length)), 1));
}

async function hold(lock: string | undefined): Promise<Disposable> {
  if (lock === undefined) return { [Symbol.dispose]: () => undefined };
  const holder = spawn("flock", [lock, "sh", "-c", "echo held; cat"], { stdio: ["pipe", "pipe", "inherit"] });
  await new Promise((resolve) => holder.stdout.once("data", resolve));
  return { [Symbol.dispose]: () => void holder.stdin.end() };
}

export function shown(result: TrialResult): TrialResult {
  progress(describeTrial(result));
  return result;
}

export function describeTrial({
  name,
  isControl,
  skipped,
  isMoved,
  detectedMs,
  isServiceRight,
  isKindRight,
  isPointerRight,
  accused,
  seen,
}: TrialResult): string {
  if (skipped !== undefined) return `${name}: skipped, ${skipped}`;
  const others = accused.length === 0 ? "" : `; accused ${accused.join(" | ")}`;
  if (isControl) return `${name}: ${seen}${others}`;
  const marks = [isServiceRight ? "service" : "", isKindRight ? "kind" : "", isPointerRight ? "pointer" : ""].filter((one) => one !== "");
  const detected = detectedMs === null ? "" : ` after ${Math.round(detectedMs / 1_000)} s`;
  return `${name}: ${marks.join(" ") || "-"}${detected}${isMoved ? "" : " (entry did not move)"}; ${seen}${others}`;
}

function progress(line: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}
