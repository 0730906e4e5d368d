/**
 * Scores what operations do: child spans and log records by pattern, per span of the operation. A step that appears, or is absent although
 * the operation ran, points to the code of the service, unless a callee's operation does something unusual too.
 */

import type { StepCounts, StepFact } from "../model/diagnosis.ts";
import type { Suspicion } from "./suspicion.ts";

const minSpans = { before: 10, after: 3 };
/** Smaller differences of rates come from a shifted mix of requests. */
const minChange = 0.3;
/** Smaller deviations are common among thousands of steps. The score reaches half of its maximum this far beyond. */
const common = 2;
const halfway = 3;
/** Beyond a clear deviation, a larger one means more requests, not more certainty. */
const greatest = 2;
const explainedPart = 0.9;
/** In records squared: a single record more or less is never a deviation. */
const minVariance = 1;

interface Deviation {
  fact: StepFact;
  score: number;
}

export function judgeSteps(steps: readonly StepFact[]): Suspicion[] {
  const worst = new Map<string, Deviation>();
  const parents = new Map<string, Set<string>>();
  for (const fact of steps) {
    const key = keyOf(fact.service, fact.operation);
    if (fact.kind === "span") {
      const child = keyOf(fact.childService, fact.child);
      parents.set(child, (parents.get(child) ?? new Set()).add(key));
    }
    const score = deviationScore(fact);
    if (score > 0 && score > (worst.get(key)?.score ?? 0)) worst.set(key, { fact, score });
  }
  const best = new Map<string, Suspicion>();
  const below = worstBelow(parents, worst);
  for (const [key, { fact, score }] of worst) {
    const further = below.get(key)?.find((other) => other.fact.service !== fact.service);
    const left = score - (further === undefined ? 0 : explainedPart * further.score * reachOf(fact, further.fact));
    if (left > (best.get(fact.service)?.score ?? Number.NEGATIVE_INFINITY)) {
      best.set(fact.service, { ...suspicionOf(fact), score: left, rawScore: score, explainedBy: further?.fact.service ?? "" });
    }
  }
  return [...best.values()];
}

/** In standard deviations of the usual traces. */
export function stepDeviation(before: StepCounts, after: StepCounts): number {
  const usual = before.records / before.spans;
  const squared = before.recordsSquared - 2 * usual * before.recordsTimesSpans + usual * usual * before.spansSquared;
  const perTrace = Math.max(0, squared) / before.traces;
  return (after.records - usual * after.spans) / Math.sqrt(after.traces * perTrace + minVariance);
}

function deviationScore({ before, after }: StepFact): number {
  if (before.spans < minSpans.before || after.spans < minSpans.after) return 0;
  const [usual, now] = [before.records / before.spans, after.records / after.spans];
  if (Math.abs(now - usual) < minChange * Math.max(now, usual)) return 0;
  const beyond = Math.abs(stepDeviation(before, after)) - common;
  return beyond <= 0 ? 0 : (greatest * beyond) / (beyond + halfway);
}

/**
 * By operation: the worst deviation that it leads to, and the worst one of another service. Deviations are propagated to callers, greatest
 * first, while they are one of the two. So every call is followed at most twice, not once for each operation above it.
 */
function worstBelow(
  parents: ReadonlyMap<string, ReadonlySet<string>>,
  worst: ReadonlyMap<string, Deviation>,
): ReadonlyMap<string, readonly Deviation[]> {
  const below = new Map<string, Deviation[]>();
  for (const [key, deviation] of [...worst].sort(([, a], [, b]) => b.score - a.score)) {
    const reached = new Set([key]);
    for (const one of reached) {
      for (const parent of parents.get(one) ?? []) {
        const known = below.get(parent) ?? [];
        if (known.length === 2 || known[0]?.fact.service === deviation.fact.service) continue;
        known.push(deviation);
        below.set(parent, known);
        reached.add(parent);
      }
    }
  }
  return below;
}

/** The share of unusual traces that the other operation can explain: it must have run in them. */
function reachOf({ before, after }: StepFact, other: StepFact): number {
  const unusual = Math.min(after.traces, Math.abs(after.records - (before.records / before.spans) * after.spans));
  return Math.min(1, other.after.traces / Math.max(1, unusual));
}

const keyOf = (service: string, operation: string): string => `${service}\n${operation}`;

function suspicionOf({ service, operation, kind, childService, child, before, after }: StepFact): Suspicion {
  const [usual, now] = [before.records / before.spans, after.records / after.spans];
  const what = kind === "log" ? `log "${shortened(child)}"` : childService === service ? child : `calls to ${childService} (${child})`;
  const per = `per ${operation}`;
  const statement =
    now < usual
      ? `${what} ${now === 0 ? "is absent" : `fell to ${rate(now)}`} ${per} although it ran ${after.spans} times; usual ${rate(usual)}`
      : `${what} ${before.records === 0 ? "is new" : `rose from ${rate(usual)}`}: ${rate(now)} ${per}`;
  return {
    service,
    kind: "changed-path",
    score: 0,
    rawScore: 0,
    pointer: kind === "log" ? shortened(child) : operation,
    statement,
    figures: { name: `${what} ${per}`, unit: "", before: usual, after: now },
    explainedBy: "",
  };
}

const rate = (value: number): string => String(Number(value.toPrecision(2)));

const shortened = (text: string): string => (text.length > 90 ? `${text.slice(0, 89)}…` : text);
