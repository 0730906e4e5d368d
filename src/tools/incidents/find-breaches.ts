/** Finds entry services that breach an objective: one learnt per route from its baselines, or a declared one. */

import type { Objective, RequestTotals, SymptomMeasure } from "../../model/incident.ts";
import type { RouteCell } from "../../model/summary.ts";
import { microseconds, share } from "../health/figures.ts";
import type { JudgedRoute } from "../health/judge-route.ts";
import { thresholds } from "../health/thresholds.ts";
import { errorMessage, routeName, slowMessage } from "../health/verdict-text.ts";
import type { ServiceSummary } from "../schemas/summary.ts";
import type { ServiceFacts } from "../summary/summary-rules.ts";
import { countSlower, isBeyond, isOfRoute, measured, servedOf } from "./judge-objective.ts";

export interface Breach {
  service: string;
  route: string;
  measure: SymptomMeasure;
  severity: "critical" | "warning";
  isDeclared: boolean;
  usual: number | null;
  limit: number | null;
  now: number | null;
  message: string;
  startedMs: number;
}

/** Above this share of requests from services that serve requests themselves, those services are the entry instead. */
const calledPart = 0.5;
const cellMs = 10_000;
/** Assumed duration when windows are not available: two bad windows. */
const usualStartMs = 2 * cellMs;
/** Processes that ended longer ago are not a breach. */
const exitMs = 10 * 60_000;
const isDownRule = new Set(["down", "unhealthy", "no-requests"]);

/**
 * Whether requests come from outside or from unknown callers. A program that only sends requests counts as outside: it serves
 * none that could suffer. `spanCallers` are callers known from spans.
 */
export function isEntry(facts: ServiceFacts, serving: ReadonlySet<string>, spanCallers: readonly string[] = []): boolean {
  const callers = facts.calledBy.filter(({ service }) => service !== facts.service && serving.has(service));
  const called = callers.reduce((sum, { now, before }) => sum + Math.max(5 * now.requests, before.requests / 6), 0);
  const served = facts.routes.reduce((sum, { fact }) => sum + (fact.role === "server" ? fact.requests : 0), 0);
  if (called > 0) return called < calledPart * served;
  return !spanCallers.some((caller) => caller !== facts.service && serving.has(caller));
}

/** Breaches of one service, worst first. A declared objective replaces the learnt one for the same measure. */
export function findBreaches(
  { summary, facts }: { summary: ServiceSummary; facts: ServiceFacts },
  objectives: readonly Objective[],
  nowMs: number,
): Breach[] {
  const breaches: Breach[] = [];
  const down = summary.findings.find(({ rule, severity }) => isDownRule.has(rule) && severity === "critical");
  if (down) {
    const exit = facts.events.find(({ kind }) => kind === "service-exited");
    const exitAtMs = exit === undefined ? 0 : Date.parse(exit.at);
    breaches.push({
      service: facts.service,
      route: "",
      measure: "down",
      severity: "critical",
      isDeclared: false,
      usual: null,
      limit: null,
      now: null,
      message: down.message,
      startedMs: exitAtMs > nowMs - exitMs ? exitAtMs : nowMs - usualStartMs,
    });
  }
  for (const route of facts.routes) {
    if (route.fact.role !== "server") continue;
    for (const breach of [failing(route, nowMs), slow(route, nowMs)]) {
      const isReplaced = (one: Objective): boolean =>
        (one.route === "" || one.route === breach?.route) && (breach?.measure === "latency" ? one.p95Us : one.errorRatio) !== null;
      if (breach !== null && !objectives.some(isReplaced)) breaches.push({ ...breach, service: facts.service });
    }
  }
  const rank = ({ severity, measure }: Breach): number => Number(severity === "warning") * 2 + Number(measure !== "down");
  return breaches.sort((a, b) => rank(a) - rank(b));
}

function failing(route: JudgedRoute, nowMs: number): Breach | null {
  const { errors, fact } = route;
  if (errors === null || errors.isChronic) return null;
  // Hysteresis: the limit for closing is below the threshold for opening.
  const limit = Math.max(1.5 * (errors.usual ?? 0), errors.threshold / 2);
  return {
    service: "",
    route: routeName(route),
    measure: "errors",
    severity: errors.severity,
    isDeclared: false,
    usual: errors.usual,
    limit,
    now: errors.ratio,
    message: errorMessage(route),
    startedMs: startOf(fact.cells, (cell) => cell.errors > limit * cell.requests, nowMs),
  };
}

function slow(route: JudgedRoute, nowMs: number): Breach | null {
  const { slow: verdict, fact } = route;
  if (verdict === null || verdict.severity === "info") return null;
  const { before, yesterday } = verdict;
  // Slower than yesterday but not than an hour ago: a trend, not an incident.
  if (before !== null && before.times < thresholds.latency.warning) return null;
  const usual = before?.p95Us ?? yesterday?.p95Us ?? null;
  if (usual === null) return null;
  const high = (before === null ? fact.yesterday : fact.before)?.p95HighUs ?? 0;
  const limit = Math.max(1.5 * usual, usual + thresholds.latency.soonUs, Math.min(high, 3 * usual));
  const isSlow = ({ requests, ...cell }: RouteCell): boolean => countSlower({ requests, ...cell }, limit) > 0.05 * requests;
  return {
    service: "",
    route: routeName(route),
    measure: "latency",
    severity: verdict.severity,
    isDeclared: false,
    usual,
    limit,
    now: verdict.p95Us,
    message: slowMessage(route),
    startedMs: startOf(fact.cells, isSlow, nowMs),
  };
}

/** Start of the current run of bad windows; a single better window does not end the run. `cells` are newest first. */
function startOf(cells: readonly RouteCell[], isBad: (cell: RouteCell) => boolean, nowMs: number): number {
  let [startMs, better] = [nowMs - usualStartMs, 0];
  for (const cell of cells) {
    if (isBad(cell)) [startMs, better] = [Math.min(startMs, cell.endMs - cellMs), 0];
    else if (++better > 1) break;
  }
  return startMs;
}

/** Standard deviations beyond the limit that open an incident. */
const declaredSigmas = 3;

/** `times`: requests of the last time ranges, shortest first. `objective.service` is named as in the totals. */
export function declaredBreaches(objective: Objective, times: readonly (readonly RequestTotals[])[], nowMs: number): Breach[] {
  const breaches: Breach[] = [];
  const measures = [
    ["latency", objective.p95Us],
    ["errors", objective.errorRatio],
  ] as const;
  for (const [measure, limit] of measures) {
    if (limit === null) continue;
    const recent = times
      .map((totals) => servedOf(totals.filter((one) => one.service === objective.service && isOfRoute(one, objective.route))))
      .find((served) => measured(served, measure, 20) !== null);
    if (recent === undefined || !isBeyond(recent, measure, limit, declaredSigmas)) continue;
    const value = measured(recent, measure, 1) ?? 0;
    const what = objective.route === "" ? "requests" : objective.route;
    const message =
      measure === "latency"
        ? `${what} p95 is ${microseconds(value)}, the objective is ${microseconds(limit)}`
        : `${share(value)} of ${what === "requests" ? what : `${what} requests`} fail, the objective is ${share(limit)}`;
    const severity = measure === "errors" && value > thresholds.errors.critical ? "critical" : "warning";
    breaches.push({
      service: objective.service,
      route: objective.route,
      measure,
      severity,
      isDeclared: true,
      usual: null,
      limit,
      now: value,
      message,
      startedMs: nowMs - usualStartMs,
    });
  }
  return breaches;
}
