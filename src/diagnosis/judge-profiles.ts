/** Uses CPU samples of a suspect to name the function whose CPU time grew, and by how much. */

import type { HotFunction, HotFunctions } from "../model/profiles.ts";
import type { Cause, Diagnosis } from "./diagnose.ts";
import { figure } from "./figure-text.ts";
import type { CauseKind, Suspicion } from "./suspicion.ts";

/** Causes that CPU time may explain. For others, a profile only shows what the service did meanwhile. */
const cpuKinds: ReadonlySet<CauseKind> = new Set(["hot-code", "blocked-thread", "slow-code", "cpu-limit", "resource", "slow", "waiting"]);
/** Causes that are about CPU whatever the samples show. The others become `hot-code` only if a function grew. */
const isCpuAnyway: ReadonlySet<CauseKind> = new Set(["hot-code", "blocked-thread", "cpu-limit", "resource"]);
const minSamples = { now: 20, before: 5 };
/** Minimum growth of a function in cores. */
const minCores = 0.05;
/** Callers of the culprit gained at least as much CPU time. The deepest function with this share of the largest gain is the culprit. */
const culpritPart = 0.6;
const maxProfiled = 2;
/** Programs that run other programs, and their libraries: a function of theirs says what the code did, and not which code it was. */
const runtimeFile = /^(?:lib)?(?:python|node|bun|deno|java|jvm|ruby|php|perl|beam|dotnet|coreclr)(?![a-z])/i;

/** Suspects that samples may refine, strongest first. */
export function profileCandidates({ causes }: Diagnosis): string[] {
  return causes
    .filter(({ kind }) => cpuKinds.has(kind))
    .slice(0, maxProfiled)
    .map(({ service }) => service);
}

export function judgeProfiles(diagnosis: Diagnosis, profiles: ReadonlyMap<string, HotFunctions>): Diagnosis {
  return { ...diagnosis, causes: diagnosis.causes.map((cause) => withFunction(cause, profiles.get(cause.service))) };
}

function withFunction(cause: Cause, profile: HotFunctions | undefined): Cause {
  const culprit = profile === undefined || !cpuKinds.has(cause.kind) ? null : culpritOf(profile);
  if (culprit === null) return cause;
  // That it waits was concluded from too little CPU time: samples know better.
  const [first, ...others] = cause.evidence.filter((one) => one.kind !== "waiting");
  const isHot = cause.kind === "hot-code" || !isCpuAnyway.has(cause.kind);
  const kind = isHot ? "hot-code" : cause.kind;
  const isPointer = isHot && !runtimeFile.test(baseName(culprit.file));
  const own = suspicionOf(cause, kind, culprit);
  if (first === undefined) return { ...cause, kind, pointer: own.pointer, evidence: [own] };
  // The symptom comes first where the answer is still about it, such as a limit that was reached, or the route whose code has no name here.
  const evidence = isPointer ? [own, first, ...others] : [first, own, ...others];
  return { ...cause, kind, pointer: isPointer ? own.pointer : cause.pointer, evidence: evidence.slice(0, 4) };
}

/**
 * The function that gained CPU time itself, not one that only calls it; code of the program before code of its runtime. Null also where that code
 * has no name, as compiled code of a script: what runs it would be named instead.
 */
function culpritOf({ samples, grown }: HotFunctions): HotFunction | null {
  if (samples.now < minSamples.now || samples.before < minSamples.before) return null;
  const gained = grown.filter((one) => one.isSignificant && gainOf(one) >= minCores && one.name !== "");
  const own = gained.filter(({ kind }) => kind === "node" || kind === "python" || kind === "go");
  const native = gained.filter(({ kind }) => kind === "native" || kind === "unknown");
  const candidates = [own, native, gained].find((list) => list.length > 0) ?? [];
  const most = candidates.reduce((max, one) => Math.max(max, gainOf(one)), 0);
  const near = candidates.filter((one) => gainOf(one) >= culpritPart * most);
  const deepest = near.reduce<HotFunction | null>((least, one) => (least && least.total.now <= one.total.now ? least : one), null);
  return deepest?.kind === "unknown" ? null : deepest;
}

const baseName = (file: string): string => file.slice(file.lastIndexOf("/") + 1);

const gainOf = ({ cores }: HotFunction): number => cores.now - cores.before;

function suspicionOf(cause: Cause, kind: CauseKind, { name, file, total, cores }: HotFunction): Suspicion {
  const where = file === "" ? name : `${name} (${baseName(file)})`;
  const share = `${figure(total.now, "ratio")} of its CPU time, was ${figure(total.before, "ratio")}`;
  return {
    service: cause.service,
    kind,
    score: cause.score,
    rawScore: cause.score,
    pointer: where,
    statement: `${where} takes ${share}: ${figure(cores.now, "")} cores, was ${figure(cores.before, "")}`,
    figures: { name: `CPU time of ${name}`, unit: "cores", before: cores.before, after: cores.now },
    explainedBy: "",
  };
}
