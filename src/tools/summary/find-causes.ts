/** Finds services whose symptoms are explained by a callee. Symptoms propagate from callee to caller, causes do not. */

import type { JudgedRoute } from "../health/judge-route.ts";
import type { SummaryFinding } from "../schemas/summary.ts";
import { excessDuration, excessErrors, usualCallErrors } from "./request-rules.ts";
import type { ServiceFacts } from "./summary-rules.ts";

const recentMs = 60_000;
/** Least share of a caller's symptoms that a callee must account for to explain them. */
const explainedPart = 0.5;
/** Least share of all calls that went to a callee that is gone. */
const minPart = 0.02;

export interface Judged {
  facts: ServiceFacts;
  findings: readonly SummaryFinding[];
}

/** The callee that explains most of the symptoms, by affected service. */
export function findCauses(all: readonly Judged[]): Map<string, string> {
  const byName = new Map(all.map((one) => [one.facts.service, one]));
  const causes = new Map<string, string>();
  for (const { facts, findings } of all) {
    if (!findings.some(({ severity }) => severity !== "info")) continue;
    const callee = goneCallee(facts, byName) ?? explainingCallee(facts);
    if (callee !== null) causes.set(facts.service, callee);
  }
  return causes;
}

function goneCallee(facts: ServiceFacts, byName: ReadonlyMap<string, Judged>): string | null {
  const total = facts.calls.reduce((sum, { before }) => sum + before.requests, 0);
  const found = facts.calls.find(
    ({ callee, before }) =>
      before.requests > minPart * total &&
      byName.get(callee)?.findings.some(({ rule, severity }) => severity !== "info" && (rule === "down" || rule === "unhealthy")),
  );
  return found?.callee ?? null;
}

function explainingCallee(facts: ServiceFacts): string | null {
  const { routes, calls, service, nowMs } = facts;
  const usualRatio = usualCallErrors(facts);
  const failed = (call: ServiceFacts["calls"][number]): number => excessErrors(call, usualRatio);
  const served = routes.filter(({ fact, errors, slow }) => fact.role === "server" && (errors !== null || isSlow(slow)));
  const own = served.map((route) => recentExcess(route, nowMs));
  const errors = own.reduce((sum, one) => sum + one.errors, 0);
  const durationUs = own.reduce((sum, one) => sum + Math.max(0, one.durationUs), 0);
  const others = calls.filter(({ callee }) => callee !== service);
  const most = (excess: (call: ServiceFacts["calls"][number]) => number, whole: number): string | null => {
    const all = others.reduce((sum, call) => sum + Math.max(0, excess(call)), 0);
    const worst = [...others].sort((a, b) => excess(b) - excess(a))[0];
    return whole > 0 && worst && all >= explainedPart * whole && excess(worst) > 0 ? worst.callee : null;
  };
  if (served.length > 0) return most(failed, errors) ?? most(excessDuration, durationUs);
  // A service without served requests: its calls are the symptom.
  const failing = routes.some((route) => route.fact.role === "client" && (route.errors !== null || isSlow(route.slow)));
  return failing ? (most(failed, 1) ?? most(excessDuration, 1)) : null;
}

const isSlow = (slow: JudgedRoute["slow"]): boolean => slow !== null && slow.severity !== "info";

/** Excess of the last minute over the usual value. */
function recentExcess({ fact, errors }: JudgedRoute, nowMs: number): { errors: number; durationUs: number } {
  const cells = fact.cells.filter(({ endMs }) => endMs > nowMs - recentMs);
  const sum = (of: (cell: (typeof cells)[number]) => number): number => cells.reduce((total, cell) => total + of(cell), 0);
  const usualUs = fact.before?.meanUs ?? null;
  return {
    errors: errors === null ? 0 : sum((cell) => cell.errors) - (errors.usual ?? 0) * sum((cell) => cell.requests),
    durationUs: usualUs === null ? 0 : sum((cell) => cell.durationUs) - usualUs * sum((cell) => cell.requests),
  };
}
