/** Rules about requests that a service serves and sends. The worst route decides and is named in the finding. */

import type { SummaryCallFact } from "../../model/summary.ts";
import { count, share } from "../health/figures.ts";
import type { JudgedRoute } from "../health/judge-route.ts";
import { thresholds } from "../health/thresholds.ts";
import { errorMessage, queueMessage, routeName, slowMessage } from "../health/verdict-text.ts";
import type { SummaryFinding } from "../schemas/summary.ts";
import { finding } from "./finding.ts";
import type { ServiceFacts } from "./summary-rules.ts";

/** Maximum number of bad routes that a finding names. */
const routesNamed = 3;

export function errorFindings(routes: readonly JudgedRoute[]): SummaryFinding[] {
  return routes
    .flatMap((route) => (route.errors === null ? [] : [{ route, verdict: route.errors }]))
    .sort(
      (a, b) =>
        Number(b.verdict.severity === "critical") - Number(a.verdict.severity === "critical") ||
        b.verdict.ratio - a.verdict.ratio ||
        b.verdict.requests - a.verdict.requests,
    )
    .slice(0, routesNamed)
    .map(({ route, verdict }) => {
      const { rule, severity, ratio, threshold } = verdict;
      return finding(rule, severity, "symptom", routeName(route), errorMessage(route), ratio, threshold, "ratio");
    });
}

export function latencyFindings(routes: readonly JudgedRoute[]): SummaryFinding[] {
  return routes
    .flatMap((route) => (route.slow === null ? [] : [{ route, verdict: route.slow }]))
    .sort(
      (a, b) =>
        severityRank(a.verdict.severity) - severityRank(b.verdict.severity) ||
        b.verdict.times - a.verdict.times ||
        b.verdict.p95Us - a.verdict.p95Us,
    )
    .slice(0, routesNamed)
    .map(({ route, verdict: { severity, times } }) => {
      const { warning, critical } = thresholds.latency;
      const message = slowMessage(route);
      if (severity === "info") {
        const text = `${message}: usual for this time of day`;
        return finding("latency-as-usual", "info", "context", routeName(route), text, times, warning, "times");
      }
      const threshold = severity === "critical" ? critical : warning;
      return finding("latency", severity, "symptom", routeName(route), message, times, threshold, "times");
    });
}

const severityRank = (severity: SummaryFinding["severity"]): number => ["critical", "warning", "info"].indexOf(severity);

export function queueFindings(routes: readonly JudgedRoute[]): SummaryFinding[] {
  const [worst] = routes
    .flatMap((route) => (route.queueing === null ? [] : [{ route, part: route.queueing.part }]))
    .sort((a, b) => b.part - a.part);
  if (!worst) return [];
  return [
    finding(
      "queueing",
      "warning",
      "symptom",
      routeName(worst.route),
      queueMessage(worst.route),
      worst.part,
      thresholds.queue.part,
      "ratio",
    ),
  ];
}

/** Missing requests are an alarm only where they are expected: from a steady schedule, or from callers that still try. */
export function rateFindings(facts: ServiceFacts): SummaryFinding[] {
  const served = facts.routes.filter(({ fact }) => fact.role === "server").map(({ fact }) => fact);
  const now = served.reduce((sum, { requests }) => sum + requests, 0);
  const [before, yesterday] = [steadyRate(served.map((fact) => fact.before)), steadyRate(served.map((fact) => fact.yesterday))];
  const { expected: enough, left } = thresholds.rate;
  const least = Math.min(before ?? 0, yesterday ?? 0);
  const isPresent = facts.places.some((place) => place.isPresent && !place.isStale);
  if (!isPresent || facts.hasLostCallers || facts.isReplaced) return [];
  const failing = facts.calledBy.find(({ now: calls }) => calls.requests >= 6 && calls.errors > calls.requests / 2);
  if (now === 0 && failing) {
    const message = `it does not respond: ${count(failing.now.errors)} of ${count(failing.now.requests)} requests of ${failing.service} failed`;
    return [finding("no-requests", "critical", "symptom", failing.service, message, 0, left, "ratio")];
  }
  if (before === null || yesterday === null || least * 300 < enough) return [];
  const part = now / 300 / least;
  const usual = `${perSecondText(before)} in the hour before, ${perSecondText(yesterday)} yesterday at this time`;
  if (now === 0)
    return [finding("no-requests", "warning", "symptom", "", `no requests arrive, or it does not respond: ${usual}`, 0, left, "ratio")];
  if (part >= left) return [];
  const message = `only ${perSecondText(now / 300)} arrive, compared with ${usual}`;
  return [finding("rate-drop", "info", "context", "", message, part, left, "ratio")];
}

/** Requests per second over a settled hour without a ten-minute lull; null: no steady schedule. */
function steadyRate(baselines: readonly (JudgedRoute["fact"]["before"] | null)[]): number | null {
  const known = baselines.flatMap((baseline) => (baseline?.isSettled ? [baseline] : []));
  const [first] = known;
  if (!first) return null;
  const requests = known.reduce((sum, baseline) => sum + baseline.requests, 0);
  const least = known.reduce((sum, baseline) => sum + baseline.minRequests, 0);
  const isSteady = least >= (0.5 * requests) / first.windowsExpected;
  return isSteady ? requests / 3_600 : null;
}

/** Its calls to others fail or are slow. */
export function callFindings(facts: ServiceFacts, isSuffering: boolean): SummaryFinding[] {
  const sent = facts.routes.filter(({ fact }) => fact.role === "client");
  const failing = sent.filter(({ errors }) => errors !== null && !errors.isChronic);
  const slow = sent.filter(({ slow: verdict }) => verdict !== null && verdict.severity !== "info");
  const { warning } = thresholds.errors;
  // The last windows decide whether calls fail; the last minute shows which callee.
  const usualRatio = usualCallErrors(facts);
  const named = failing.length === 0 ? [] : facts.calls.filter((call) => excessErrors(call, usualRatio) >= 6);
  const findings: SummaryFinding[] = named
    .sort((a, b) => b.now.errors - a.now.errors)
    .slice(0, routesNamed)
    .map((call) => {
      const ratio = call.now.errors / call.now.requests;
      const was = call.before.requests > 0 ? `, was ${share(call.before.errors / call.before.requests)}` : "";
      const message = `${share(ratio)} of ${count(call.now.requests)} requests it sent to ${call.callee} failed${was}`;
      return finding("callee-failing", "warning", "cause", call.callee, message, ratio, warning, "ratio");
    });
  const [first] = errorFindings(failing);
  if (findings.length === 0 && first) {
    findings.push({ ...first, rule: "calls-failing", severity: "warning", kind: "cause", message: `calls it sends: ${first.message}` });
  }
  const [slowest] = latencyFindings(slow);
  if (slowest) {
    const severity = isSuffering ? "warning" : "info";
    findings.push({ ...slowest, rule: "calls-slower", severity, kind: "cause", message: `calls it sends are slower: ${slowest.message}` });
  }
  return findings;
}

/** Usual error share of its calls. */
export function usualCallErrors({ routes }: Pick<ServiceFacts, "routes">): number {
  const sent = routes.flatMap(({ fact: { role, before } }) => (role === "client" && before !== null ? [before] : []));
  const requests = sent.reduce((sum, baseline) => sum + baseline.requests, 0);
  return requests > 0 ? sent.reduce((sum, baseline) => sum + baseline.errorRatio * baseline.requests, 0) / requests : 0;
}

/** Failed calls in excess of the usual. An earlier incident does not count as usual, although `before` contains it. */
export function excessErrors({ now, before }: SummaryCallFact, usualRatio: number): number {
  const ratio = before.requests > 0 ? before.errors / before.requests : 0;
  return now.errors - now.requests * Math.min(ratio, usualRatio);
}

/** Microseconds of calls in excess of the time before. */
export function excessDuration({ now, before }: SummaryCallFact): number {
  return before.requests > 0 ? now.durationUs - (now.requests * before.durationUs) / before.requests : 0;
}

function perSecondText(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)}/s`;
}
