/** Converts stored incidents to the shape of answers. */

import { CoralError } from "../../base/errors.ts";
import { type Incident, type IncidentSymptom, incidentId, incidentNumber } from "../../model/incident.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import type { IncidentBrief, IncidentDetail } from "../schemas/incident.ts";

const iso = (ms: number): string => new Date(ms).toISOString();
/** Keeps one answer under 1,500 tokens of a model's context. */
const shown = { symptoms: 4, evidence: 4, ruledOut: 2, changes: 3, timeline: 8, text: 120, brief: 90 };

/** Throws `not-found`. */
export async function findIncident(backend: Pick<ColonyBackend, "incident">, text: string, context: ToolCallContext): Promise<Incident> {
  const number = incidentNumber(text);
  const found = number === null ? undefined : await backend.incident(number, context);
  if (found) return found;
  throw new CoralError({
    code: "not-found",
    message: `Cannot find incident "${text}": no incident has this id; see coral incidents`,
    details: { id: text },
  });
}

export function briefOf(incident: Incident, nowMs: number): IncidentBrief {
  const { number, state, severity, startedMs, endedMs, closedMs, symptoms, cause } = incident;
  const [first] = symptoms;
  return {
    id: incidentId(number),
    state,
    severity,
    since: iso(startedMs),
    durationMs: Math.max(0, (endedMs ?? closedMs ?? nowMs) - startedMs),
    service: first?.service ?? "",
    symptom: shortened(first?.message ?? "", shown.brief),
    cause: cause === null ? null : shortened(cause.summary, shown.brief),
    confidence: cause === null ? null : Math.round(cause.confidence * 100) / 100,
  };
}

export function detailOf(incident: Incident, nowMs: number): IncidentDetail {
  const { openedMs, endedMs, closedMs, cause, changes, timeline, mergedInto } = incident;
  const id = incidentId(incident.number);
  const verify = { command: `coral verify ${id}`, why: "after a fix: compares the time before, during and after" };
  return {
    ...briefOf(incident, nowMs),
    openedAt: iso(openedMs),
    endedAt: endedMs === null ? null : iso(endedMs),
    closedAt: closedMs === null ? null : iso(closedMs),
    mergedInto: mergedInto === null ? null : incidentId(mergedInto),
    symptoms: incident.symptoms.slice(0, shown.symptoms).map(symptomView),
    causeService: cause?.service ?? null,
    causeKind: cause?.kind ?? null,
    pointer: cause === null ? null : shortened(cause.pointer),
    chain: cause?.chain ?? [],
    evidence: (cause?.evidence ?? []).slice(0, shown.evidence).map((one) => ({ ...one, statement: shortened(one.statement) })),
    ruledOut: incident.ruledOut.slice(0, shown.ruledOut).map(({ service, reason }) => ({ service, reason: shortened(reason) })),
    changes: changes.slice(0, shown.changes).map(({ atMs, message, ...rest }) => ({ at: iso(atMs), ...rest, message: shortened(message) })),
    timeline: newestOf(timeline, shown.timeline).map(({ atMs, text }) => ({ at: iso(atMs), text: shortened(text) })),
    next: incident.state === "merged" ? [] : [...incident.next.slice(0, 2), verify],
  };
}

/** The first and the last entries of a long list. */
function newestOf<T>(items: readonly T[], count: number): T[] {
  return items.length <= count ? [...items] : [...items.slice(0, 3), ...items.slice(3 - count)];
}

function symptomView({ service, route, measure, isDeclared, usual, limit, worst, now, okSinceMs, message }: IncidentSymptom) {
  return {
    service,
    route: shortened(route, shown.brief),
    measure,
    isDeclared,
    usual,
    limit,
    worst,
    now,
    isOver: okSinceMs !== null,
    message: shortened(message),
  };
}

export function shortened(text: string, length = shown.text): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
