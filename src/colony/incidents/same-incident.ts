/** Decides whether a service's symptoms belong to an open incident. */

import type { Incident, IncidentCause } from "../../model/incident.ts";

export interface Trouble {
  service: string;
  startedMs: number;
  /** Null: no diagnosis, or no cause found. */
  cause: Pick<IncidentCause, "service" | "kind" | "chain"> | null;
}

/** Symptoms that begin within this time of each other may share a cause. */
const togetherMs = 2 * 60_000;
/** The same without a known cause. */
const atOnceMs = 45_000;

/**
 * One root cause makes one incident; so do causal chains that include each other at the same time. Without a known cause, services
 * belong together when their symptoms began at once and they depend on each other or on the same service.
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
    // Each chain contains the other service, or one on the path to it.
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
