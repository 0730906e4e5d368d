/** External limits of a service: CPU and memory limits, and the exit of its processes. Its callers only suffer from them. */

import {
  type ChangeFact,
  type DiagnosisFacts,
  type LimitFact,
  type MeasureFact,
  requestMeasures,
  requestStepSeconds,
  type TimeRange,
} from "../model/diagnosis.ts";
import type { CallGraph } from "./call-graph.ts";
import { figure } from "./figure-text.ts";
import type { Suspicion } from "./suspicion.ts";

/** Share of CPU periods in which a service was throttled, and its growth. */
const minThrottled = { share: 0.2, growth: 0.15 };
/** An OOM kill, or the exit of a process, needs no statistics. */
const certain = 2.5;
/** Used memory relative to the limit, and its growth. */
const nearLimit = { share: 0.92, growth: 1.3 };
const minSymptom = 0.5;
/** An exit up to this long before the onset may be its cause. */
const exitReachMs = 5 * 60_000;
/**
 * A service with requests in at least this share of the usual steps is never silent by chance for `missingSteps` steps. The newest rows may
 * still be in transit.
 */
const steadyPart = 0.6;
const missingSteps = 2.5;
const aboveSymptoms = 1.05;
/** A service that stopped explains this share of its callers' symptoms. */
const explainedPart = 0.75;

/** `symptoms`: an exited program is only a cause if its callers fail. */
export function judgeLimits(facts: DiagnosisFacts, symptoms: readonly Suspicion[], graph: CallGraph): Suspicion[] {
  const { limits, changes, after } = facts;
  const during = changes.filter(({ timeMs }) => timeMs >= after.fromMs - 30_000);
  const found = limits.flatMap((limit) => [judgeMemory(limit), judgeThrottling(limit)].filter((one) => one !== null));
  for (const change of during) {
    if (change.kind === "oom-kill" && !found.some(({ service, kind }) => service === change.service && kind === "out-of-memory"))
      found.push(killed(change));
  }
  found.push(...judgeExits(facts, symptoms, graph).filter(({ service }) => !found.some((one) => one.service === service)));
  // What stopped a service explains its own symptoms, however strong they are.
  const strongest = (service: string): number =>
    symptoms.reduce((most, one) => (one.service === service ? Math.max(most, one.rawScore) : most), 0);
  const measured = new Set(facts.measures.filter(isMeasuredNow).map(({ service }) => service));
  // A limit reached some time ago that no longer affects anything is not a cause. Callers count only if its own requests are not measured:
  // they may suffer from something else.
  const isNoticed = ({ service, kind }: Suspicion): boolean => {
    const others = kind === "cpu-limit" && measured.has(service) ? [] : graph.callersOf(service);
    return [service, ...others].some((one) => strongest(one) >= minSymptom);
  };
  return found.filter(isNoticed).map((one) => ({ ...one, score: Math.max(one.score, aboveSymptoms * strongest(one.service)) }));
}

const isMeasuredNow = ({ name, before, after }: MeasureFact): boolean =>
  name === requestMeasures.duration && before.count > 0 && after.count > 0;

/** Exited processes whose service is silent while its callers suffer. */
function judgeExits(
  { changes, measures, before: usualTimes, after }: DiagnosisFacts,
  symptoms: readonly Suspicion[],
  graph: CallGraph,
): Suspicion[] {
  const exits = new Map<string, number>();
  for (const { kind, service, timeMs } of changes) {
    // A process scan sees the exit up to 30 s late, and callers with open connections notice it late too.
    if (kind === "service-exited" && timeMs >= after.fromMs - exitReachMs && timeMs < after.untilMs)
      exits.set(service, Math.max(timeMs, exits.get(service) ?? 0));
  }
  const mostSteps = Math.max(0, ...measures.filter(({ name }) => name === requestMeasures.rate).map(({ before }) => before.count));
  return measures.flatMap((measure) => {
    const { service, name, before, after: now } = measure;
    const exitMs = exits.get(service);
    if (name !== requestMeasures.rate || exitMs === undefined || !isSilent(measure, exitMs, { usualTimes, after, mostSteps })) return [];
    const callers = new Set(graph.callersOf(service));
    if (!symptoms.some((one) => callers.has(one.service) && one.rawScore >= minSymptom)) return [];
    const served = now.count === 0 || now.median > before.median / 4 ? 0 : now.median;
    return {
      ...certainly(service, "down", "its process ended"),
      statement: `its process ended, and it serves ${figure(served, "/s")}, was ${figure(before.median, "/s")}`,
      figures: { name, unit: "/s", before: before.median, after: served },
    };
  });
}

/**
 * Steps without requests have no rate: an exited service keeps the rate of its last steps. So this looks for missing steps, all of them
 * after the exit. If one of several processes exited, none are missing.
 */
function isSilent(
  { before, after: now }: MeasureFact,
  exitMs: number,
  { usualTimes, after, mostSteps }: { usualTimes: readonly TimeRange[]; after: TimeRange; mostSteps: number },
): boolean {
  if (now.count === 0 || now.median <= before.median / 4) return before.median > 0;
  const step = requestStepSeconds(after);
  const seconds = (from: number, until: number): number => Math.max(0, until - from) / 1_000;
  const usualSeconds = usualTimes.reduce((sum, { fromMs, untilMs }) => sum + seconds(fromMs, untilMs), 0);
  // Times in which no service was seen at all are times without an agent.
  const isSteady = before.count * step >= steadyPart * Math.min(usualSeconds, mostSteps * step);
  const servedSeconds = now.count * step;
  const missingSeconds = seconds(after.fromMs, after.untilMs) - servedSeconds;
  return isSteady && missingSeconds >= missingSteps * step && servedSeconds <= seconds(after.fromMs, exitMs) + 2 * step;
}

/** Callers of a stopped service are not to blame for their symptoms. */
export function withoutStopped(suspicions: readonly Suspicion[], stopped: readonly Suspicion[], graph: CallGraph): Suspicion[] {
  if (stopped.length === 0) return [...suspicions];
  return suspicions.map((suspicion) => {
    const isSymptom =
      suspicion.kind === "slow" || suspicion.kind === "failing" || suspicion.kind === "slow-code" || suspicion.kind === "slow-link";
    if (!isSymptom) return suspicion;
    const needed = graph.reachableFrom([suspicion.service]);
    const cause = stopped.find(({ service }) => service !== suspicion.service && needed.has(service));
    return cause === undefined ? suspicion : { ...suspicion, score: suspicion.score * (1 - explainedPart), explainedBy: cause.service };
  });
}

function certainly(service: string, kind: Suspicion["kind"], pointer: string): Omit<Suspicion, "statement" | "figures"> {
  return { service, kind, score: certain, rawScore: certain, pointer, explainedBy: "" };
}

function judgeMemory({ service, oomKills, memoryLimit, memoryUsed, memoryUsedBefore }: LimitFact): Suspicion | null {
  const limit = memoryLimit === null ? "" : ` of ${figure(memoryLimit, "By")}`;
  const figures = { name: "memory used", unit: "By", before: memoryUsedBefore, after: memoryUsed };
  if (oomKills > 0) {
    const times = oomKills === 1 ? "once" : `${oomKills} times`;
    const statement = `the kernel killed it ${times}: it reached its memory limit${limit}`;
    return { ...certainly(service, "out-of-memory", `memory limit${limit}`), statement, figures };
  }
  if (memoryLimit === null || memoryUsed < nearLimit.share * memoryLimit || memoryUsed < nearLimit.growth * memoryUsedBefore) return null;
  const statement = `its memory grew to ${figure(memoryUsed, "By")} of the limit${limit}, was ${figure(memoryUsedBefore, "By")}`;
  return { ...certainly(service, "out-of-memory", `memory limit${limit}`), score: certain / 2, rawScore: certain / 2, statement, figures };
}

function judgeThrottling({ service, throttled: { before, after }, cpuCores }: LimitFact): Suspicion | null {
  if (after.count === 0 || after.median < minThrottled.share || after.median < before.median + minThrottled.growth) return null;
  const limit = cpuCores === null ? "" : ` of ${figure(cpuCores, "")} cores`;
  return {
    ...certainly(service, "cpu-limit", `CPU limit${limit}`),
    score: certain * Math.min(1, 0.4 + after.median),
    statement: `its CPU limit${limit} throttled it in ${figure(after.median, "ratio")} of the periods, was ${figure(before.median, "ratio")}`,
    figures: { name: "CPU throttling", unit: "ratio", before: before.median, after: after.median },
  };
}

function killed({ service, message }: ChangeFact): Suspicion {
  return {
    ...certainly(service, "out-of-memory", "memory limit"),
    statement: message,
    figures: { name: "processes killed", unit: "", before: 0, after: 1 },
  };
}
