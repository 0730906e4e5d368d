/** Injects a fault, runs `coral diagnose` every few seconds, and compares its first cause with the truth. */

import type { DiagnosisResult } from "../../../../src/tools/schemas/diagnosis.ts";
import { type Role, roles } from "../live-names.ts";
import type { LiveWorld } from "../live-world.ts";
import type { ControlTrial, FaultTrial, TrialWorld } from "./trial.ts";

/** Between two diagnoses. */
const pollMs = 3_000;
/** How long a fault lasts at most. */
const faultMs = 55_000;
/** How long a trial without a fault is watched. */
const controlMs = 45_000;
/** A fault ends early when its diagnosis was right for this time. */
const steadyMs = 12_000;
/** How long a fault lasts at least. */
const leastFaultMs = 40_000;
/** Thresholds from which the entry's indicator has moved: slower by this factor, or this many more failures. */
const leastSlower = 1.25;
/** Share of requests. */
const leastFailed = 0.01;

/** What the diagnosis said during one trial. */
export interface TrialResult {
  name: string;
  skipped?: string;
  /** Whether clients at the entry were affected; a fault without effect there does not count. */
  isMoved: boolean;
  detectedMs: number | null;
  isServiceRight: boolean;
  isKindRight: boolean;
  isPointerRight: boolean;
  /** Wrong first causes, in order. */
  accused: string[];
  /** The last first cause. */
  seen: string;
}

const none = { isMoved: false, detectedMs: null, isServiceRight: false, isKindRight: false, isPointerRight: false, accused: [], seen: "" };

/** Causes the fault, polls the diagnosis, and repairs the fault even if polling fails. */
export async function watchFaultTrial(trial: TrialWorld, fault: FaultTrial): Promise<TrialResult> {
  const skipped = fault.skipReason?.(trial);
  if (skipped !== undefined) return { ...none, name: fault.name, skipped };
  const { world, colony } = trial;
  const startMs = Date.now();
  process.stderr.write(`${new Date(startMs).toISOString()} ${fault.name} begins\n`);
  const accused = new Set<string>();
  let [rightMs, last]: [number | null, DiagnosisResult | null] = [null, null];
  await fault.inject(trial);
  try {
    for (;;) {
      await colony.wait(pollMs);
      last = await colony.diagnose();
      const first = last.causes[0];
      const isRight = first !== undefined && isOneOf(world, first.service, fault.services);
      if (first && !isRight) accused.add(causeText(world, last));
      rightMs = isRight ? (rightMs ?? Date.now()) : null;
      const lastedMs = Date.now() - startMs;
      if (lastedMs >= faultMs || (lastedMs >= leastFaultMs && rightMs !== null && Date.now() - rightMs >= steadyMs)) break;
    }
  } finally {
    await fault.repair(trial);
  }
  const first = last?.causes[0];
  const isServiceRight = first !== undefined && isOneOf(world, first.service, fault.services);
  const text = first ? [first.pointer, first.summary, ...first.evidence.map(({ statement }) => statement)].join("\n") : "";
  return {
    name: fault.name,
    isMoved: hasMoved(world, startMs),
    detectedMs: rightMs === null ? null : rightMs - startMs,
    isServiceRight,
    isKindRight: isServiceRight && fault.kinds.includes(first?.kind ?? ""),
    isPointerRight: isServiceRight && fault.pointers.some((pointer) => text.includes(pointer)),
    accused: [...accused],
    seen: last === null ? "" : causeText(world, last),
  };
}

/** Every named cause is wrong, except "more traffic" if there is more traffic. */
export async function watchControlTrial(trial: TrialWorld, control: ControlTrial): Promise<TrialResult> {
  const skipped = control.skipReason?.(trial);
  if (skipped !== undefined) return { ...none, name: control.name, skipped };
  const startMs = Date.now();
  process.stderr.write(`${new Date(startMs).toISOString()} ${control.name} begins\n`);
  const accused = new Set<string>();
  let seen = "";
  await control.inject(trial);
  try {
    while (Date.now() - startMs < controlMs) {
      await trial.colony.wait(pollMs);
      const answer = await trial.colony.diagnose();
      seen = causeText(trial.world, answer);
      const first = answer.causes[0];
      if (first !== undefined && first.kind !== "more-traffic") accused.add(seen);
    }
  } finally {
    await control.repair(trial);
  }
  return { ...none, name: control.name, accused: [...accused], seen };
}

function roleOf(world: LiveWorld, service: string): Role | undefined {
  const plain = service.replace(/[ :(].*$/, "");
  const own = roles.find((role) => world.names[role] === service || world.names[role] === plain);
  // A program without a name is identified by its address.
  return own ?? roles.find((role) => service.endsWith(`:${world.ports[role]}`));
}

function isOneOf(world: LiveWorld, service: string, right: readonly (Role | "host")[]): boolean {
  const role = roleOf(world, service) ?? (/\(host\)$|^host /.test(service) ? "host" : undefined);
  return role !== undefined && right.includes(role);
}

function causeText(world: LiveWorld, { verdict, causes }: DiagnosisResult): string {
  const [first] = causes;
  if (!first) return verdict;
  const [evidence] = first.evidence;
  return `${roleOf(world, first.service) ?? first.service} ${first.kind} ${first.pointer} (${first.confidence}): ${evidence?.statement ?? ""}`;
}

function hasMoved({ seen }: LiveWorld, startMs: number): boolean {
  const middleOf = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return [...new Set(seen.flatMap(({ routes }) => Object.keys(routes)))].some((route) => {
    const of = (isAfter: boolean) =>
      seen
        .filter(({ atMs }) => atMs > startMs + 3_000 === isAfter && atMs > startMs - 120_000)
        .flatMap(({ routes }) => (routes[route] ? [routes[route]] : []));
    const [before, after] = [of(false), of(true)];
    const failed = (counts: typeof before): number =>
      counts.reduce((sum, { errors }) => sum + errors, 0) /
      Math.max(
        1,
        counts.reduce((sum, { requests }) => sum + requests, 0),
      );
    const ms = (counts: typeof before): number => middleOf(counts.map((one) => one.ms / one.requests));
    return failed(after) > failed(before) + leastFailed || ms(after) > leastSlower * ms(before) || after.length < before.length / 4;
  });
}
