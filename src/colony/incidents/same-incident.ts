/** Whether the trouble of a service is part of an incident that is open. */

import type { Incident, IncidentCause } from "../../model/incident.ts";

export interface Trouble {
  service: string;
  startedMs: number;
  /** Null: no diagnosis, or it found nothing. */
  cause: Pick<IncidentCause, "service" | "kind" | "chain"> | null;
}

/** Two services that begin to suffer within this time may suffer from one thing. */
const togetherMs = 2 * 60_000;
/** Without a cause, only what begins at once. */
const atOnceMs = 45_000;

/**
 * One root cause makes one incident. So do causal chains that lead through each other at the same time; and, where no cause is known, services
 * that began to suffer at once and depend on each other or on the same service.
 */
export function sameIncident(
  trouble: Trouble,
  open: readonly Incident[],
  calls: readonly { service: string; callee: string }[],
): Incident | undefined {
  return open.find((incident) => isSame(trouble, incident, calls));
}

function isSame(
  { service, startedMs, cause }: Trouble,
  incident: Incident,
  calls: readonly { service: string; callee: string }[],
): boolean {
  const apartMs = Math.abs(startedMs - incident.startedMs);
  const entries = incident.symptoms.map((symptom) => symptom.service);
  if (cause !== null && incident.cause !== null) {
    if (cause.service === incident.cause.service) return true;
    // Each names the other, or a service on the way to it.
    const leads = entries.includes(cause.service) || incident.cause.service === service;
    const crosses = cause.chain.includes(incident.cause.service) || incident.cause.chain.includes(cause.service);
    return apartMs <= togetherMs && (leads || crosses);
  }
  if (apartMs > atOnceMs) return false;
  const needs = (one: string): Set<string> => reachable(one, calls);
  const own = needs(service);
  const [known] = [cause ?? incident.cause].map((one) => one?.service);
  return entries.some((entry) => {
    const theirs = needs(entry);
    if (own.has(entry) || theirs.has(service)) return true;
    const shared = [...own].filter((one) => theirs.has(one));
    return known === undefined ? shared.length > 0 : shared.includes(known);
  });
}

function reachable(service: string, calls: readonly { service: string; callee: string }[]): Set<string> {
  const found = new Set<string>();
  const waiting = [service];
  for (const one of waiting)
    for (const { service: caller, callee } of calls)
      if (caller === one && !found.has(callee)) {
        found.add(callee);
        waiting.push(callee);
      }
  return found;
}
