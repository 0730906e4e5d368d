/** Scores time in spans. Self time of an operation is its own code; time of a call beyond the callee's span is the link. */

import type { LinkFact, OperationFact } from "../model/diagnosis.ts";
import { figure, times } from "./figure-text.ts";
import { scoreOf, timeShift } from "./robust-shift.ts";
import type { Suspicion } from "./suspicion.ts";

const minSpans = { before: 5, after: 3 };
/** Medians of fewer spans get a lower weight. */
const fullWeightSpans = 8;
/** A movement matters if it is at least this share of the entry's request time. */
const entryPart = 0.02;
const minFloorUs = 500;
/** What a caller's other links have as well belongs to the caller. */
const sharedPart = 0.9;
/** If both ends have the same links, the callee is more likely. */
const calleeBonus = 0.01;
const singlePart = 0.5;

export function judgeSpans(operations: readonly OperationFact[], links: readonly LinkFact[], entry: string | null): Suspicion[] {
  const ofEntry = operations.filter(({ service, before }) => service === entry && before.self.count >= minSpans.before);
  const floorUs = Math.max(minFloorUs, entryPart * ofEntry.reduce((most, { before }) => Math.max(most, before.wholeUs), 0));
  return [...judgeSelfTime(operations, floorUs), ...judgeLinks(links, floorUs)];
}

function judgeSelfTime(operations: readonly OperationFact[], floorUs: number): Suspicion[] {
  return operations.flatMap(({ service, operation, isCall, before, after }) => {
    if (isCall || before.self.count < minSpans.before || after.self.count < minSpans.after) return [];
    const score = weightOf(after.self.count) * scoreOf(timeShift(before.self, after.self, floorUs));
    const [usual, now] = [before.self.median, after.self.median];
    return {
      service,
      kind: "slow-code" as const,
      score,
      rawScore: score,
      pointer: operation,
      statement: `${operation} takes ${figure(now, "us")} by itself, was ${figure(usual, "us")}${times(usual, now)}`,
      figures: { name: `self time of ${operation}`, unit: "us", before: usual, after: now },
      explainedBy: "",
    };
  });
}

interface JudgedLink extends LinkFact {
  score: number;
}

/** Each link belongs to both ends. The end whose links are all slow is blamed. */
function judgeLinks(links: readonly LinkFact[], floorUs: number): Suspicion[] {
  const judged = links
    .filter(({ before, after }) => before.count >= minSpans.before && after.count >= minSpans.after)
    // Tails of usual gaps may contain earlier incidents of the same network, so the median decides.
    .map((link): JudgedLink => {
      const score = weightOf(link.after.count) * scoreOf(timeShift(link.before, link.after, floorUs, false));
      return { ...link, score };
    });
  const services = new Set(judged.flatMap(({ caller, callee }) => [caller, callee]));
  const [byCaller, byCallee] = [groupedBy(judged, "caller"), groupedBy(judged, "callee")];
  return [...services].flatMap((service) => {
    const incoming = byCallee.get(service) ?? [];
    const outgoing = byCaller.get(service) ?? [];
    const asCallee = mean(incoming.map((link) => link.score - sharedPart * meanScore(siblings(link, byCaller.get(link.caller)))));
    const [only] = outgoing;
    // With a single link both ends look the same; the callee is more likely.
    const asCaller =
      outgoing.length > 1 || only === undefined
        ? meanScore(outgoing)
        : singlePart * (only.score - sharedPart * meanScore(siblings(only, byCallee.get(only.callee))));
    const isCallee = incoming.length > 0 && asCallee >= asCaller;
    const worst = (isCallee ? incoming : [...incoming, ...outgoing]).reduce((most, one) => (most.score >= one.score ? most : one));
    const [usual, now] = [worst.before.median, worst.after.median];
    return {
      service,
      kind: "slow-link" as const,
      score: Math.max(asCallee, asCaller) + (isCallee ? calleeBonus : 0),
      rawScore: worst.score,
      pointer: `${worst.caller} → ${worst.callee}`,
      statement: `calls ${worst.caller} → ${worst.callee} wait ${figure(now, "us")} outside ${worst.callee}, was ${figure(usual, "us")}${times(usual, now)}`,
      figures: { name: `gap of ${worst.caller} → ${worst.callee}`, unit: "us", before: usual, after: now },
      explainedBy: "",
    };
  });
}

function groupedBy(links: readonly JudgedLink[], end: "caller" | "callee"): Map<string, JudgedLink[]> {
  const groups = new Map<string, JudgedLink[]>();
  for (const link of links) {
    const group = groups.get(link[end]);
    if (group) group.push(link);
    else groups.set(link[end], [link]);
  }
  return groups;
}

/** Other links with the same end. */
function siblings(link: JudgedLink, sameEnd: readonly JudgedLink[] = []): JudgedLink[] {
  return sameEnd.filter((other) => other !== link);
}

const mean = (values: readonly number[]): number => (values.length === 0 ? 0 : values.reduce((sum, one) => sum + one, 0) / values.length);

const meanScore = (links: readonly JudgedLink[]): number => mean(links.map(({ score }) => score));

const weightOf = (spans: number): number => Math.min(1, Math.sqrt(spans / fullWeightSpans));
