/** Ranks root causes from the facts of all services. Deterministic: the same facts always give the same result. */

import type { ChangeFact, DiagnosisFacts } from "../model/diagnosis.ts";
import { CallGraph } from "./call-graph.ts";
import { explainCause } from "./explain-cause.ts";
import { judgeHosts } from "./judge-hosts.ts";
import { judgeLimits, withoutStopped } from "./judge-limits.ts";
import { judgeMeasures } from "./judge-measures.ts";
import { judgeSpans } from "./judge-spans.ts";
import { judgeSteps } from "./judge-steps.ts";
import { judgeTraffic } from "./judge-traffic.ts";
import type { CauseKind, Suspicion } from "./suspicion.ts";

interface DiagnosisQuestion {
  /** The service whose requests suffer; null: any. */
  entry: string | null;
  /** The symptom in question; null: any. */
  symptom: "latency" | "errors" | null;
}

export interface Cause {
  service: string;
  kind: CauseKind;
  pointer: string;
  score: number;
  /** 0..1: how often a first cause with such a lead is correct. */
  confidence: number;
  /** All statistics that point to this service, strongest first. */
  evidence: Suspicion[];
  /** Services from the entry to this one. */
  chain: string[];
  /** This service's last change before or at the onset. */
  change: ChangeFact | null;
}

interface RuledOut {
  service: string;
  reason: string;
}

export interface Diagnosis {
  /** At most `maxCauses`, most likely first. Empty: no issue found. */
  causes: Cause[];
  /** Services whose symptoms others explain, or whose changes had no effect. */
  ruledOut: RuledOut[];
  /** The strongest suspicion below the threshold, if there is no issue. */
  nearest: Suspicion | null;
  services: number;
}

/** Threshold: in nine of ten windows without a fault, all suspicions stay below. */
const minScore = 0.62;
const maxCauses = 5;
/** Weight of evidence for the other symptom, and of services that the entry does not depend on. */
const otherSymptom = 0.3;
const unrelated = 0.5;
/** The entry was asked about: trouble that it does not need may be worse, and is another. */
const unrelatedToEntry = 0.25;
/** A change near the onset makes a suspicion more likely, but never is one. */
const changeFactor = 1.25;
const changeReachMs = 15 * 60_000;
const evidenceShown = 4;

export function diagnose(facts: DiagnosisFacts, { entry, symptom }: DiagnosisQuestion): Diagnosis {
  const graph = new CallGraph([...facts.calls, ...facts.links]);
  const externals = new Set(facts.externals);
  const withSpans = new Set(
    facts.operations.filter(({ after, before }) => after.self.count >= 3 && before.self.count >= 5).map(({ service }) => service),
  );
  const symptoms = judgeMeasures(facts.measures, { graph, isExternal: (one) => externals.has(one), hasSpans: (one) => withSpans.has(one) });
  const stopped = judgeLimits(facts, symptoms, graph);
  const found = [
    ...stopped,
    ...judgeHosts(facts, symptoms),
    ...withoutStopped(symptoms, stopped, graph),
    ...judgeSpans(facts.operations, facts.links, entry),
    ...judgeSteps(facts.steps),
    ...judgeTraffic(facts.measures, entry),
  ];
  const needed = neededBy(entry, found, graph);
  const weighed = found.map((suspicion) =>
    weighedBy(suspicion, { entry, symptom, needed, changes: facts.changes, startMs: facts.after.fromMs }),
  );
  const byService = new Map<string, Suspicion[]>();
  for (const suspicion of weighed) {
    const own = byService.get(suspicion.service);
    if (own) own.push(suspicion);
    else byService.set(suspicion.service, [suspicion]);
  }
  for (const own of byService.values()) own.sort((a, b) => b.score - a.score);
  const ranked = [...byService].sort(([nameA, [a]], [nameB, [b]]) => (b?.score ?? 0) - (a?.score ?? 0) || (nameA < nameB ? -1 : 1));
  const causes = ranked
    .filter(([, [first]]) => (first?.score ?? 0) >= minScore)
    .slice(0, maxCauses)
    .map(([service, own], place, all) => causeOf(service, own, all[place === 0 ? 1 : 0]?.[1][0]?.score ?? 0, { graph, entry, facts }));
  return {
    causes,
    ruledOut: ruledOut(ranked, causes, facts.changes),
    nearest: causes.length > 0 ? null : (ranked[0]?.[1][0] ?? null),
    services: byService.size,
  };
}

/** Services that the entry depends on; without an entry, those that services with symptoms depend on. Null: dependencies are unknown. */
function neededBy(entry: string | null, found: readonly Suspicion[], graph: CallGraph): ReadonlySet<string> | null {
  if (entry !== null) return graph.isEmpty ? null : graph.reachableFrom([entry]);
  const suffering = found.filter(({ kind, rawScore }) => (kind === "slow" || kind === "failing") && rawScore >= minScore);
  if (suffering.length === 0) return null;
  return graph.reachableFrom(suffering.map(({ service }) => service));
}

function weighedBy(
  suspicion: Suspicion,
  {
    entry,
    symptom,
    needed,
    changes,
    startMs,
  }: {
    entry: string | null;
    symptom: DiagnosisQuestion["symptom"];
    needed: ReadonlySet<string> | null;
    changes: readonly ChangeFact[];
    startMs: number;
  },
): Suspicion {
  const { kind, service } = suspicion;
  const isOther = (symptom === "errors" && kind === "slow") || (symptom === "latency" && kind === "failing");
  const isUnrelated = needed !== null && !needed.has(service) && kind !== "host";
  const isChanged = changeOf(service, changes, startMs) !== null;
  const factor =
    (isOther ? otherSymptom : 1) * (isUnrelated ? (entry === null ? unrelated : unrelatedToEntry) : 1) * (isChanged ? changeFactor : 1);
  return factor === 1 ? suspicion : { ...suspicion, score: suspicion.score * factor };
}

/** The last change in the quarter of an hour before the onset, or shortly after: clocks differ, and the onset is an estimate. */
function changeOf(service: string, changes: readonly ChangeFact[], startMs: number): ChangeFact | null {
  const near = changes.filter((one) => one.service === service && one.timeMs > startMs - changeReachMs && one.timeMs < startMs + 60_000);
  return near.reduce<ChangeFact | null>((last, one) => (last && last.timeMs >= one.timeMs ? last : one), null);
}

function causeOf(
  service: string,
  own: readonly Suspicion[],
  rival: number,
  { graph, entry, facts }: { graph: CallGraph; entry: string | null; facts: DiagnosisFacts },
): Cause {
  const [first] = own;
  const score = first?.score ?? 0;
  const explained = first ? explainCause(first, facts) : null;
  const shown = explained && first ? [{ ...first, ...explained }, ...own] : own;
  return {
    service,
    kind: shown[0]?.kind ?? "slow",
    pointer: shown[0]?.pointer ?? "",
    score,
    confidence: confidenceOf(score, rival),
    evidence: shown.filter((one) => one.score >= minScore / 2).slice(0, evidenceShown),
    chain: entry === null || entry === service ? [service] : graph.path(entry, service),
    change: changeOf(service, facts.changes, facts.after.fromMs),
  };
}

/** This cause's share of the evidence; scores that are common in quiet times count against it. */
function confidenceOf(score: number, rival: number): number {
  const [own, other, none] = [score ** 2, Math.max(0, rival) ** 2, (minScore * 0.7) ** 2];
  return own / (own + other / 2 + none);
}

function ruledOut(
  ranked: readonly (readonly [string, readonly Suspicion[]])[],
  causes: readonly Cause[],
  changes: readonly ChangeFact[],
): RuledOut[] {
  const blamed = new Set(causes.map(({ service }) => service));
  const found: RuledOut[] = [];
  for (const [service, own] of ranked) {
    if (blamed.has(service)) continue;
    const explained = own.find((one) => one.explainedBy !== "" && one.rawScore >= minScore && one.score < minScore);
    if (explained) found.push({ service, reason: `suffers from ${explained.explainedBy}: ${explained.statement}` });
  }
  for (const { service, message } of changes) {
    const isSteady = !blamed.has(service) && !found.some((one) => one.service === service);
    if (isSteady) found.push({ service, reason: `changed (${message}), but its requests, spans and resources are as usual` });
  }
  return found.slice(0, maxCauses);
}
