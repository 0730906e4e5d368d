import type { RedFact, RedFacts } from "../../model/red.ts";
import type { RedRow } from "../schemas/traffic.ts";

/** Derives rates and shares from sums. */
export function redRowOf(fact: RedFact, facts: Pick<RedFacts, "windowMs" | "bucketMs" | "settledPoints">): RedRow {
  const { before, points, ...amounts } = fact;
  const { queueMeanUs, meanUs } = fact;
  return {
    source: "hooks",
    ...amounts,
    perSecond: perSecond(fact.requests, facts.windowMs),
    errorRatio: ratio(fact.errors, fact.requests),
    serviceMeanUs: queueMeanUs === null || meanUs === null ? null : Math.max(0, meanUs - queueMeanUs),
    before:
      before === null
        ? null
        : {
            requests: before.requests,
            perSecond: perSecond(before.requests, facts.windowMs),
            errorRatio: ratio(before.errors, before.requests),
            p95Us: before.p95Us,
          },
    points: points.slice(0, facts.settledPoints ?? points.length).map((requests) => perSecond(requests, facts.bucketMs)),
  };
}

/** Rounds a rate to four digits. */
export function perSecond(count: number, durationMs: number): number {
  return durationMs > 0 ? Number(((count * 1_000) / durationMs).toPrecision(4)) : 0;
}

export function ratio(part: number, whole: number): number {
  return whole > 0 ? Number((part / whole).toPrecision(4)) : 0;
}
