/** Compares the requests of a short time range with a limit. */

import { bucketOf, fineLayout, mergeHistograms, percentileNs, type SparseHistogram } from "../../base/latency-histogram.ts";
import type { IncidentSymptom, RequestTotals, SymptomMeasure } from "../../model/incident.ts";
import { routeText } from "../../model/route-text.ts";

/** Merged requests. */
export interface Served {
  requests: number;
  errors: number;
  durations: SparseHistogram;
}

/** With fewer requests there is no verdict. */
const minRequests = 10;
/** Share of requests that may exceed a p95. */
const slowShare = 0.05;

const noRequests: Served = { requests: 0, errors: 0, durations: { lo: 0, counts: [] } };

export function servedOf(totals: readonly RequestTotals[]): Served {
  return totals.reduce<Served>(
    (sum, { requests, errors, durations }) => ({
      requests: sum.requests + requests,
      errors: sum.errors + errors,
      durations: mergeHistograms(sum.durations, durations),
    }),
    noRequests,
  );
}

/** An empty route means all requests of the service. */
export function isOfRoute({ method, route, protocol }: RequestTotals, wanted: string): boolean {
  const text = routeText(method, route);
  return wanted === "" || text === wanted || (text === "" ? `${protocol} requests` : text) === wanted || route === wanted;
}

/** Microseconds or a share; null: too few requests. */
export function measured(served: Served, measure: SymptomMeasure, least = minRequests): number | null {
  if (served.requests < least) return null;
  if (measure !== "latency") return served.errors / served.requests;
  const ns = percentileNs(fineLayout, served.durations, 0.95);
  return ns === null ? null : ns / 1_000;
}

export function countSlower({ durations: { lo, counts } }: Served, limitUs: number): number {
  const limit = bucketOf(fineLayout, limitUs * 1_000);
  return counts.reduce((sum, count, index) => sum + (lo + index > limit ? count : 0), 0);
}

/** Whether the value exceeds the limit by more than `sigmas` standard deviations for this many requests. */
export function isBeyond(served: Served, measure: SymptomMeasure, limit: number, sigmas: number): boolean {
  const [bad, share] = measure === "latency" ? [countSlower(served, limit), slowShare] : [served.errors, limit];
  const expected = served.requests * share;
  return bad > expected + sigmas * Math.sqrt(expected * (1 - share) + 0.25);
}

/** Current value of a symptom, from the shortest range with enough requests; null: too few in all of them. */
export function symptomNow(
  symptom: Pick<IncidentSymptom, "measure" | "limit" | "route">,
  times: readonly (readonly RequestTotals[])[],
): { value: number; isBad: boolean } | null {
  if (symptom.limit === null) return null;
  for (const totals of times) {
    const served = servedOf(totals.filter((one) => isOfRoute(one, symptom.route)));
    const value = measured(served, symptom.measure);
    if (value !== null) return { value, isBad: isBeyond(served, symptom.measure, symptom.limit, 0) };
  }
  return null;
}
