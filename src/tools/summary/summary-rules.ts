/**
 * The health rules: each checks the facts of one service and reports the value and the threshold. Deterministic. docs/summary.md
 * lists them.
 */

import { formatDurationMs } from "../../base/units.ts";
import type {
  SummaryCallFact,
  SummaryCgroupFact,
  SummaryEventFact,
  SummaryHostFact,
  SummaryPatternFact,
  SummaryPlaceFact,
} from "../../model/summary.ts";
import { deployedAgo } from "../deployments/deployment-text.ts";
import { count } from "../health/figures.ts";
import type { JudgedRoute } from "../health/judge-route.ts";
import { thresholds } from "../health/thresholds.ts";
import type { Deployment } from "../schemas/deployment.ts";
import type { SummaryFinding, SummaryRequests } from "../schemas/summary.ts";
import { finding } from "./finding.ts";
import { cgroupFindings } from "./load-rules.ts";
import { callFindings, errorFindings, latencyFindings, queueFindings, rateFindings } from "./request-rules.ts";

/** All facts about one service. */
export interface ServiceFacts {
  service: string;
  requests: SummaryRequests | null;
  /** Name that its requests are counted under; differs from the service's where spans use another one. */
  countedAs: string;
  /** Verdicts of the routes that it serves and calls. */
  routes: readonly JudgedRoute[];
  /** Calls to and from other services; read only while something is unusual. */
  calls: SummaryCallFact[];
  calledBy: SummaryCallFact[];
  /** True when services that called it fail now. */
  hasFailingCallers: boolean;
  /** True when the callers that sent most of its requests have ended. */
  hasLostCallers: boolean;
  /** True when another service listens on its port, or its callers moved to another one. */
  isReplaced: boolean;
  places: SummaryPlaceFact[];
  hosts: SummaryHostFact[];
  cgroups: SummaryCgroupFact[];
  patterns: SummaryPatternFact[];
  /** True when it sent log records. */
  isLogging: boolean;
  events: SummaryEventFact[];
  deployment: Deployment | null;
  windowMs: number;
  nowMs: number;
  hostname: (agentId: string) => string;
}

const severities = ["critical", "warning", "info"] as const;
const kinds = ["symptom", "cause", "context"] as const;

/** Worst first; at equal severity symptoms before causes. Findings about its host are added once causes are known. */
export function summaryFindings(facts: ServiceFacts): SummaryFinding[] {
  const served = facts.routes.filter(({ fact }) => fact.role === "server");
  const symptoms = [
    ...downFindings(facts),
    ...errorFindings(served),
    ...latencyFindings(served),
    ...rateFindings(facts),
    ...queueFindings(served),
  ];
  const isSuffering = symptoms.some(({ severity }) => severity !== "info");
  const found = [
    ...symptoms,
    ...restartFindings(facts),
    ...cgroupFindings(facts),
    ...callFindings(facts, isSuffering),
    ...logFindings(facts),
    ...deploymentFindings(facts, isSuffering),
  ];
  return sortFindings(found);
}

export function sortFindings(findings: readonly SummaryFinding[]): SummaryFinding[] {
  return [...findings].sort(
    (a, b) =>
      severities.indexOf(a.severity) - severities.indexOf(b.severity) ||
      kinds.indexOf(a.kind) - kinds.indexOf(b.kind) ||
      excess(b) - excess(a),
  );
}

/** Ratio of the value to the threshold; a fixed 10 for rules without a threshold. */
function excess({ value, threshold }: SummaryFinding): number {
  return threshold > 0 ? value / threshold : 10;
}

function downFindings(facts: ServiceFacts): SummaryFinding[] {
  const { places, events } = facts;
  const findings: SummaryFinding[] = [];
  const unhealthy = places.filter(({ health, isStale }) => health === "unhealthy" && !isStale);
  if (unhealthy.length > 0) {
    const why = unhealthy.find(({ healthDetail }) => healthDetail !== null)?.healthDetail ?? "the check fails";
    const where = unhealthy.length === places.length ? "" : ` on ${unhealthy.length} of ${places.length} hosts`;
    findings.push(finding("unhealthy", "critical", "symptom", "", `its health check fails${where}: ${why}`, unhealthy.length, 0, "count"));
  }
  const live = places.filter(({ isStale }) => !isStale);
  const gone = live.filter(({ isPresent }) => !isPresent);
  const exit = events.find(({ kind }) => kind === "service-exited");
  if (live.length > 0 && gone.length === live.length && exit) {
    const severity = downSeverity(facts);
    const kind = severity === "info" ? "context" : "symptom";
    findings.push(finding("down", severity, kind, "", `not running: ${exit.message}`, gone.length, 0, "count"));
  } else if (gone.length > 0 && exit && gone.some(({ isReplaced }) => !isReplaced)) {
    // While other hosts run it, a stopped instance matters only if requests still arrive.
    const isServing = facts.routes.some(({ fact }) => fact.role === "server" && fact.requests > 0);
    findings.push(
      finding(
        "partly-down",
        isServing ? "warning" : "info",
        isServing ? "symptom" : "context",
        "",
        `${gone.length} of ${live.length} hosts no longer run it`,
        gone.length,
        0,
        "count",
      ),
    );
  }
  return findings;
}

/** Services that ran for less than this are tasks that finished. */
const lastingMs = 600_000;
/** Minutes with requests after which more are expected, for services too young for a schedule. */
const steadyMinutes = 5;

/** Down means still needed: a finished task, an ended client and a replaced service are not down. */
function downSeverity({ routes, places, isReplaced, hasLostCallers, hasFailingCallers }: ServiceFacts): SummaryFinding["severity"] {
  if (hasFailingCallers) return "critical";
  if (isReplaced || hasLostCallers || places.every((place) => place.isReplaced)) return "info";
  const isPromised = routes.some(({ fact: { role, before } }) => {
    if (role !== "server" || before === null) return false;
    return before.isSettled ? before.minRequests > 0 : before.windows >= steadyMinutes;
  });
  if (isPromised) return "critical";
  return places.some(({ isListening, seenMs }) => isListening && seenMs >= lastingMs) ? "warning" : "info";
}

/** Restarts with the same binary; those with another binary are deployments. A crash loop is over when the next restart is overdue. */
function restartFindings({ events, nowMs }: ServiceFacts): SummaryFinding[] {
  const restarts = events.filter(({ kind, severity }) => kind === "service-restarted" && severity !== "info");
  if (restarts.length === 0) return [];
  const times = restarts.map(({ at }) => Date.parse(at)).sort((a, b) => b - a);
  const [newest = 0, oldest = 0] = [times[0], times.at(-1)];
  const isOver = nowMs - newest > Math.max(60_000, (2 * (newest - oldest)) / Math.max(1, restarts.length - 1));
  const { warning, critical } = thresholds.restarts;
  const isLoop = !isOver && restarts.length >= warning;
  const severity = !isLoop ? "info" : restarts.length >= critical ? "critical" : "warning";
  const message = restarts.length === 1 ? "it was restarted" : `it was restarted ${restarts.length} times`;
  return [finding("restarts", severity, "cause", "", message, restarts.length, severity === "critical" ? critical : warning, "count")];
}

/** Skips services with too little log history, where every pattern would be new. */
function logFindings({ patterns, windowMs, nowMs }: ServiceFacts): SummaryFinding[] {
  const errors = patterns.filter(({ severity }) => severity === "error" || severity === "fatal");
  const coveredMs = Math.max(0, ...errors.map(({ coveredBeforeMs }) => coveredBeforeMs));
  const isKnown = coveredMs >= thresholds.errorRecords.coveredMs;
  const isOver = errors.every(({ lastAt }) => lastAt === null || nowMs - Date.parse(lastAt) > thresholds.recordsOverMs);
  const isNews = isKnown && !isOver;
  const fresh = errors.filter(({ isNew }) => isNew).sort((a, b) => b.records - a.records);
  const findings: SummaryFinding[] = [];
  const [first] = fresh;
  if (first) {
    const records = fresh.reduce((sum, pattern) => sum + pattern.records, 0);
    const others = fresh.length === 1 ? "" : ` and ${fresh.length - 1} other new patterns`;
    const severity = isNews && records >= thresholds.newErrors ? "warning" : "info";
    const message = `new errors in its log, ${count(records)} records: "${shortened(first.template)}"${others}`;
    findings.push(finding("new-errors", severity, "symptom", first.pattern, message, records, thresholds.newErrors, "count"));
  }
  const now = errors.reduce((sum, pattern) => sum + pattern.records, 0);
  // Scale the time before to the window.
  const usual = (errors.reduce((sum, pattern) => sum + pattern.recordsBefore, 0) * windowMs) / Math.max(windowMs, coveredMs);
  const { least, times } = thresholds.errorRecords;
  if (isNews && now >= least && now >= times * usual && !first) {
    const message = `${count(now)} error records, ${usual < 1 ? "almost none" : `about ${count(usual)}`} in the same time before`;
    findings.push(finding("error-records", "warning", "symptom", "", message, usual < 1 ? now : now / usual, times, "times"));
  }
  return findings;
}

/** A regression is a warning while comparisons run and while the service has symptoms. */
function deploymentFindings({ deployment, nowMs }: ServiceFacts, isSuffering: boolean): SummaryFinding[] {
  if (deployment === null) return [];
  const agoMs = Math.max(0, nowMs - Date.parse(deployment.at));
  const ago = formatDurationMs(Math.round(agoMs / 1_000) * 1_000);
  // A rolled-back deployment is no longer a cause.
  const isRegression = deployment.verdict === "regression" && deployment.state !== "rolled-back";
  if (!isRegression && agoMs > thresholds.recentDeploymentMs) return [];
  const what = deployedAgo(deployment, ago);
  if (isRegression) {
    return [
      finding(
        "deployment-regression",
        isSuffering || !deployment.isComplete ? "warning" : "info",
        "cause",
        deployment.id,
        `worse since ${what}: ${deployment.reason}`,
        1,
        0,
        "count",
      ),
    ];
  }
  const verdict = {
    improvement: "better than before",
    "no-change": "no worse than before so far",
    "not-enough-data": "not compared yet",
    regression: "it was worse than before",
  }[deployment.verdict];
  return [finding("deployed", "info", "context", deployment.id, `${what}: ${verdict}`, 1, 0, "count")];
}

function shortened(text: string): string {
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}
