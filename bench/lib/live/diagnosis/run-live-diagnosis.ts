/** Runs faults and controls, in an order that the seed determines, in one world that a real `coral up` observes. */

import { spawn } from "node:child_process";
import { Dice } from "../../health-world.ts";
import { bpfProblem } from "../../request-watch.ts";
import { LiveColony } from "../live-colony.ts";
import { LiveWorld, missingPrograms } from "../live-world.ts";
import { controlTrials } from "./control-trials.ts";
import { faultTrials } from "./fault-trials.ts";
import { SlowDisk } from "./slow-disk.ts";
import { type TrialResult, watchControlTrial, watchFaultTrial } from "./watch-diagnosis.ts";

/** Which trials to run, and how often. */
export interface LiveDiagnosisOptions {
  seed: number;
  /** Substrings of the names of trials to run; empty: all. */
  only: readonly string[];
  warmUpMs: number;
  /** Rest after each repair. */
  restMs: number;
  /** Rounds of controls. */
  rounds: number;
  /** Held while a fault lasts, so that benchmarks on one machine take turns. */
  lock?: string | undefined;
  /** Directory that keeps the colony's data after the run, for queries with --at. */
  keep?: string | undefined;
}

/** Results of all trials of one run. */
export interface LiveDiagnosisRun {
  skipped?: string;
  faults: TrialResult[];
  controls: TrialResult[];
}

/** All trials run in one world, in random order. Each fault is repaired before the next trial. */
export async function runLiveDiagnosis({
  seed,
  only,
  warmUpMs,
  restMs,
  rounds,
  lock,
  keep,
}: LiveDiagnosisOptions): Promise<LiveDiagnosisRun> {
  const run: LiveDiagnosisRun = { faults: [], controls: [] };
  const skipped = missingPrograms() ?? bpfProblem();
  if (skipped !== undefined) return { ...run, skipped };
  const isWanted = ({ name }: { name: string }): boolean => only.length === 0 || only.some((part) => name.includes(part));
  const dice = new Dice(seed + 2);
  const faults = shuffled(faultTrials.filter(isWanted), dice);
  const controls = Array.from({ length: rounds }, () => shuffled(controlTrials.filter(isWanted), dice)).flat();
  using orders = SlowDisk.make() ?? undefined;
  using payments = SlowDisk.make() ?? undefined;
  await using colony = await LiveColony.start();
  colony.keepIn = keep;
  const disks = { ...(orders ? { orders: orders.path } : {}), ...(payments ? { payments: payments.path } : {}) };
  await using world = await new LiveWorld(seed, { disks, hasEdge: true, otlpUrl: colony.otlpUrl }).start();
  const trial = { world, colony, disks: { orders: orders ?? null, payments: payments ?? null } };
  progress(`world ${Object.entries(world.names).flat().join(" ")}; ${faults.length} faults, ${controls.length} controls`);
  await colony.wait(warmUpMs);
  for (const control of controls) {
    run.controls.push(shown(await watchControlTrial(trial, control)));
    await colony.wait(restMs);
  }
  for (const fault of faults) {
    using _ = await hold(lock);
    run.faults.push(shown(await watchFaultTrial(trial, fault)));
    await colony.wait(restMs);
  }
  return run;
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

function shown(result: TrialResult): TrialResult {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${describeTrial(result)}\n`);
  return result;
}

export function describeTrial({
  name,
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
  const marks = [isServiceRight ? "service" : "", isKindRight ? "kind" : "", isPointerRight ? "pointer" : ""].filter((one) => one !== "");
  const detected = detectedMs === null ? "" : ` after ${Math.round(detectedMs / 1_000)} s`;
  const others = accused.length === 0 ? "" : `; accused ${accused.join(" | ")}`;
  return `${name}: ${marks.join(" ") || "-"}${detected}${isMoved ? "" : " (entry did not move)"}; ${seen}${others}`;
}

function progress(line: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}
