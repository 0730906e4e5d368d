/** Runs `coral diagnose` for an incident and records the result in it. */

import type { EvidenceFact } from "../../model/diagnosis.ts";
import type { Incident, IncidentCause } from "../../model/incident.ts";
import type { SummaryEventFact } from "../../model/summary.ts";
import { type ColonyBackend, type DiagnosisResult, diagnoseTool } from "../../tools/index.ts";
import { addMoment } from "./incident-tracker.ts";

/** Least time to diagnose; shorter ranges are too noisy. */
const leastMs = 60_000;
const changesBeforeMs = 15 * 60_000;
const changesMax = 8;
const changeKinds = /^(?:deployment|service-restarted|binary-updated|service-exited|egress-new|log-pattern-new)/;
/** A new cause replaces the previous one when its confidence is higher by this, or when it repeats. */
const surer = 0.05;

export interface IncidentDiagnosis {
  result: DiagnosisResult;
  evidence: EvidenceFact[];
  cause: IncidentCause | null;
}

/** `label`: name of the entry service. `idOf`: maps names in the answer to ids. */
export async function diagnoseIncident(
  backend: ColonyBackend,
  { label, fromMs, untilMs, idOf }: { label: string; fromMs: number; untilMs: number; idOf: (label: string) => string },
  signal: AbortSignal,
): Promise<IncidentDiagnosis> {
  const evidence: EvidenceFact[] = [];
  const noting: ColonyBackend = {
    ...backend,
    keepEvidence: async (facts) => {
      evidence.push(...facts);
      await backend.keepEvidence(facts);
    },
  };
  const iso = (ms: number): string => new Date(ms).toISOString();
  const between = `${iso(Math.min(fromMs, untilMs - leastMs))}..${iso(untilMs)}`;
  const result = await diagnoseTool.call(noting, { question: label, between }, { signal });
  const [first] = result.verdict === "issue" ? result.causes : [];
  if (!first) return { result, evidence, cause: null };
  const shown = new Set(first.evidence.map(({ id }) => id));
  const { kind, pointer, confidence, summary, change } = first;
  const cause = {
    service: idOf(first.service),
    kind,
    pointer,
    confidence,
    summary,
    change,
    chain: first.chain.map(idOf),
    evidence: first.evidence.map(({ id, statement }) => ({ id, statement })),
  };
  return { result, evidence: evidence.filter(({ id }) => shown.has(id)), cause };
}

/** True when the cause changed. `isRepeated`: the previous diagnosis named the same cause. */
export function noteDiagnosis(
  incident: Incident,
  { result, evidence, cause }: IncidentDiagnosis,
  nowMs: number,
  isRepeated: boolean,
): boolean {
  incident.diagnosedMs = nowMs;
  if (cause === null) return false;
  const known = incident.cause;
  const isSame = known !== null && known.service === cause.service && known.kind === cause.kind && known.pointer === cause.pointer;
  const isBetter = known === null || isSame || isRepeated || cause.confidence >= known.confidence + surer;
  if (!isBetter) return false;
  Object.assign(incident, { cause, ruledOut: result.ruledOut, next: result.next, evidence: mergedEvidence(incident.evidence, evidence) });
  if (isSame) return false;
  const sure = `${Math.round(cause.confidence * 100)}% sure`;
  addMoment(incident, { atMs: nowMs, kind: "cause", text: `${known === null ? "cause" : "cause refined"}: ${cause.summary} (${sure})` });
  return true;
}

const evidenceMax = 40;

/** Keeps the evidence of earlier causes, so that its ids stay valid. */
function mergedEvidence(before: readonly EvidenceFact[], now: readonly EvidenceFact[]): EvidenceFact[] {
  const ids = new Set(now.map(({ id }) => id));
  return [...now, ...before.filter(({ id }) => !ids.has(id))].slice(0, evidenceMax);
}

/** Events of services in the incident, from 15 minutes before its start. `events` name services by label. */
export function noteChanges(incident: Incident, events: readonly SummaryEventFact[], idOf: (label: string) => string): void {
  const services = new Set([...incident.symptoms.map(({ service }) => service), ...(incident.cause?.chain ?? [])]);
  for (const event of [...events].reverse()) {
    const atMs = Date.parse(event.at);
    const service = idOf(event.service);
    const isNear = atMs > incident.startedMs - changesBeforeMs && atMs < incident.updatedMs;
    if (!isNear || !services.has(service) || !changeKinds.test(event.kind)) continue;
    const isKnown = incident.changes.some((one) => one.atMs === atMs && one.kind === event.kind && one.service === service);
    if (!isKnown && incident.changes.length < changesMax)
      incident.changes.push({ atMs, kind: event.kind, service, message: event.message });
  }
}
