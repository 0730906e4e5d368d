/**
 * The rules of a summary: each checks the facts of one service and reports the value and the threshold. Deterministic; docs/summary.md
 * lists them.
 */

import { formatDurationMs } from "../../base/units.ts";
import type { SummaryCgroupFact, SummaryEventFact, SummaryHostFact, SummaryPatternFact, SummaryPlaceFact } from "../../model/summary.ts";
import { microseconds, share } from "../deployments/describe-deployment.ts";
import type { Deployment } from "../schemas/deployment.ts";
import type { SummaryBaseline, SummaryFinding, SummaryRequests } from "../schemas/summary.ts";
import { finding, thresholds } from "./finding.ts";
import { cgroupFindings, hostFindings } from "./load-rules.ts";

/** Everything that is known of one service. */
export interface ServiceFacts {
  service: string;
  requests: SummaryRequests | null;
  /** The name that its requests are counted under: what its spans call it, where that is another one. */
  countedAs: string;
  /** Mean time in queue and mean duration of what it answered, microseconds. */
  queueMeanUs: number | null;
  meanUs: number | null;
  /** Requests it sent to all others together; null without any. */
  asked: SummaryRequests | null;
  places: SummaryPlaceFact[];
  hosts: SummaryHostFact[];
  cgroups: SummaryCgroupFact[];
  patterns: SummaryPatternFact[];
  /** Log records came of it. */
  isLogging: boolean;
  events: SummaryEventFact[];
  deployment: Deployment | null;
  windowMs: number;
  nowMs: number;
  hostname: (agentId: string) => string;
}

/** Fewer requests are too few for a share or a percentile. */
const enoughRequests = 20;
/** A request below this is fast enough, however much faster it was before. */
const leastSlowUs = 2_000;
const leastQueuedUs = 5_000;

const severities = ["critical", "warning", "info"] as const;
const kinds = ["symptom", "cause", "context"] as const;

/** Worst first; of the same severity symptoms before causes. */
export function summaryFindings(facts: ServiceFacts): SummaryFinding[] {
  const symptoms = [
    ...downFindings(facts),
    ...errorFindings(facts),
    ...latencyFindings(facts),
    ...rateFindings(facts),
    ...queueFindings(facts),
  ];
  const isSuffering = symptoms.some(({ severity }) => severity !== "info");
  const found = [
    ...symptoms,
    ...restartFindings(facts),
    ...cgroupFindings(facts),
    ...hostFindings(facts, isSuffering),
    ...askedFindings(facts, isSuffering),
    ...logFindings(facts),
    ...deploymentFindings(facts),
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

/** How far beyond its threshold; where one is already news, that far. */
function excess({ value, threshold }: SummaryFinding): number {
  return threshold > 0 ? value / threshold : 10;
}

function downFindings({ service, places, events, requests }: ServiceFacts): SummaryFinding[] {
  const findings: SummaryFinding[] = [];
  const unhealthy = places.filter(({ health }) => health === "unhealthy");
  if (unhealthy.length > 0) {
    const why = unhealthy.find(({ healthDetail }) => healthDetail !== null)?.healthDetail ?? "its check fails";
    const where = unhealthy.length === places.length ? "" : ` on ${unhealthy.length} of ${places.length} hosts`;
    findings.push(finding("unhealthy", "critical", "symptom", "", `its health check fails${where}: ${why}`, unhealthy.length, 0, "count"));
  }
  const live = places.filter(({ isStale }) => !isStale);
  const gone = live.filter(({ isPresent }) => !isPresent);
  const exit = events.find(({ kind }) => kind === "service-exited");
  if (live.length > 0 && gone.length === live.length && exit) {
    // A task that serves no requests may simply have finished.
    const severity = requests?.role === "server" || places.some(({ health }) => health !== null) ? "critical" : "warning";
    findings.push(finding("down", severity, "symptom", "", `no process of ${service} is left: ${exit.message}`, gone.length, 0, "count"));
  } else if (gone.length > 0 && exit) {
    findings.push(
      finding("partly-down", "warning", "symptom", "", `${gone.length} of ${live.length} hosts no longer run it`, gone.length, 0, "count"),
    );
  }
  return findings;
}

/** The baselines with data: a rule fires only when now is worse than each. */
function baselinesOf({
  before,
  yesterday,
}: Pick<SummaryRequests, "before" | "yesterday">): { name: string; value: NonNullable<SummaryBaseline> }[] {
  return [
    ...(before === null ? [] : [{ name: "in the hour before", value: before }]),
    ...(yesterday === null ? [] : [{ name: "yesterday at this time", value: yesterday }]),
  ];
}

function errorFindings({ requests }: ServiceFacts): SummaryFinding[] {
  if (requests === null || requests.role === "client" || requests.requests < enoughRequests) return [];
  const { errorRatio, errors } = requests;
  const baselines = baselinesOf(requests);
  const usual = baselines.map(({ name, value }) => `${share(value.errorRatio)} ${name}`).join(", ");
  const than = usual === "" ? "" : ` (${usual})`;
  const message = `${share(errorRatio)} of ${count(requests.requests)} requests to it failed${than}`;
  const { warning, critical } = thresholds.errors;
  if (errorRatio > critical) return [finding("errors", "critical", "symptom", "", message, errorRatio, critical, "ratio")];
  if (errorRatio > warning) return [finding("errors", "warning", "symptom", "", message, errorRatio, warning, "ratio")];
  const { least, errors: leastErrors, times } = thresholds.errorsRising;
  const highest = Math.max(...baselines.map(({ value }) => value.errorRatio));
  if (errorRatio < least || errors < leastErrors || baselines.length === 0 || errorRatio < times * highest) return [];
  return [finding("errors-rising", "warning", "symptom", "", message, errorRatio, Math.max(least, times * highest), "ratio")];
}

/**
 * Against each baseline. Slower than an hour ago but as slow as yesterday is how this time of the day is; slower than yesterday but not than an
 * hour ago has been so for a while.
 */
function latencyFindings({ requests }: ServiceFacts): SummaryFinding[] {
  if (requests === null || requests.role === "client") return [];
  const slow = slowness(requests);
  if (slow === null) return [];
  const { times, isUsual, text } = slow;
  const { warning, critical } = thresholds.latency;
  const message = `p95 is ${text}`;
  if (isUsual)
    return [finding("latency-as-usual", "info", "context", "", `${message}: usual for this time of day`, times, warning, "times")];
  const isCritical = times > critical;
  return [finding("latency", isCritical ? "critical" : "warning", "symptom", "", message, times, isCritical ? critical : warning, "times")];
}

function slowness(requests: SummaryRequests): { times: number; isUsual: boolean; text: string } | null {
  const { p95Us, before, yesterday } = requests;
  if (p95Us === null || requests.requests < enoughRequests || p95Us < leastSlowUs) return null;
  const of = (baseline: SummaryBaseline): number | null => (baseline?.p95Us && baseline.p95Us > 0 ? p95Us / baseline.p95Us : null);
  const [beforeTimes, dayTimes] = [of(before), of(yesterday)];
  const { warning } = thresholds.latency;
  const comparisons = [
    ...(beforeTimes === null ? [] : [`${ratioText(beforeTimes)} the ${microseconds(before?.p95Us ?? 0)} of the hour before`]),
    ...(dayTimes === null ? [] : [`${ratioText(dayTimes)} the ${microseconds(yesterday?.p95Us ?? 0)} of yesterday at this time`]),
  ];
  const text = `${microseconds(p95Us)}, ${comparisons.join(" and ")}`;
  const isSlowerThanBefore = beforeTimes !== null && beforeTimes > warning;
  const isSlowerThanYesterday = dayTimes !== null && dayTimes > warning;
  if (isSlowerThanBefore && (dayTimes === null || isSlowerThanYesterday))
    return { times: Math.min(beforeTimes, dayTimes ?? beforeTimes), isUsual: false, text };
  if (isSlowerThanBefore) return { times: beforeTimes, isUsual: true, text };
  // It is no longer getting worse, so it does not become critical by this alone.
  if (isSlowerThanYesterday) return { times: Math.min(dayTimes, thresholds.latency.critical), isUsual: false, text };
  return null;
}

function rateFindings({ requests, windowMs }: ServiceFacts): SummaryFinding[] {
  if (requests === null || requests.role === "client") return [];
  const baselines = baselinesOf(requests);
  const expected = baselines.map(({ value }) => (value.perSecond * windowMs) / 1_000);
  const { expected: enough, left } = thresholds.rate;
  if (expected.length === 0 || expected.some((requestsThen) => requestsThen < enough)) return [];
  const least = Math.min(...baselines.map(({ value }) => value.perSecond));
  const part = requests.perSecond / least;
  if (part >= left) return [];
  const usual = baselines.map(({ name, value }) => `${perSecondText(value.perSecond)} ${name}`).join(", ");
  if (requests.requests === 0)
    return [finding("no-requests", "critical", "symptom", "", `it receives no requests, or does not respond: ${usual}`, 0, left, "ratio")];
  return [
    finding(
      "rate-drop",
      "warning",
      "symptom",
      "",
      `only ${perSecondText(requests.perSecond)} arrive, compared with ${usual}`,
      part,
      left,
      "ratio",
    ),
  ];
}

function queueFindings({ requests, queueMeanUs, meanUs }: ServiceFacts): SummaryFinding[] {
  if (requests === null || requests.requests < enoughRequests || queueMeanUs === null || meanUs === null || meanUs <= 0) return [];
  const part = queueMeanUs / meanUs;
  // More time in the queue than in all: both were not measured of the same requests.
  if (queueMeanUs < leastQueuedUs || part <= thresholds.queue || part > 1) return [];
  const message = `requests wait ${microseconds(queueMeanUs)} of ${microseconds(meanUs)} before it reads them: too few workers or not enough CPU`;
  return [finding("queueing", "warning", "symptom", "", message, part, thresholds.queue, "ratio")];
}

/** Restarts with the same binary; those with another one are deployments. */
function restartFindings({ events }: ServiceFacts): SummaryFinding[] {
  const restarts = events.filter(({ kind, severity }) => kind === "service-restarted" && severity !== "info");
  if (restarts.length === 0) return [];
  const { warning, critical } = thresholds.restarts;
  const severity = restarts.length >= critical ? "critical" : restarts.length >= warning ? "warning" : "info";
  const message = restarts.length === 1 ? "it was restarted" : `it was restarted ${restarts.length} times`;
  return [finding("restarts", severity, "cause", "", message, restarts.length, severity === "critical" ? critical : warning, "count")];
}

/** Its calls to others fail or are slow: look there. */
function askedFindings({ asked }: ServiceFacts, isSuffering: boolean): SummaryFinding[] {
  if (asked === null || asked.requests < enoughRequests) return [];
  const findings: SummaryFinding[] = [];
  const { warning } = thresholds.errors;
  if (asked.errorRatio > warning) {
    const message = `${share(asked.errorRatio)} of ${count(asked.requests)} requests it sent failed`;
    findings.push(finding("calls-failing", "warning", "cause", "", message, asked.errorRatio, warning, "ratio"));
  }
  const slow = slowness(asked);
  if (slow !== null && !slow.isUsual) {
    const message = `its calls to others are slower: p95 is ${slow.text}`;
    findings.push(
      finding("calls-slower", isSuffering ? "warning" : "info", "cause", "", message, slow.times, thresholds.latency.warning, "times"),
    );
  }
  return findings;
}

function logFindings({ patterns, windowMs }: ServiceFacts): SummaryFinding[] {
  const errors = patterns.filter(({ severity }) => severity === "error" || severity === "fatal");
  const fresh = errors.filter(({ isNew }) => isNew).sort((a, b) => b.records - a.records);
  const findings: SummaryFinding[] = [];
  const [first] = fresh;
  if (first) {
    const records = fresh.reduce((sum, pattern) => sum + pattern.records, 0);
    const others = fresh.length === 1 ? "" : ` and ${fresh.length - 1} other new patterns`;
    const severity = records >= thresholds.newErrors ? "warning" : "info";
    const message = `new errors in its log, ${count(records)} records: "${shortened(first.template)}"${others}`;
    findings.push(finding("new-errors", severity, "symptom", first.pattern, message, records, thresholds.newErrors, "count"));
  }
  const now = errors.reduce((sum, pattern) => sum + pattern.records, 0);
  // The hour before, scaled to the window.
  const usual = (errors.reduce((sum, pattern) => sum + pattern.recordsBefore, 0) * windowMs) / 3_600_000;
  const { least, times } = thresholds.errorRecords;
  if (now >= least && now >= times * usual && !first) {
    const message = `${count(now)} error records, ${usual < 1 ? "almost none" : `about ${count(usual)}`} in the same time before`;
    findings.push(finding("error-records", "warning", "symptom", "", message, usual < 1 ? now : now / usual, times, "times"));
  }
  return findings;
}

function deploymentFindings({ deployment, nowMs }: ServiceFacts): SummaryFinding[] {
  if (deployment === null) return [];
  const agoMs = Math.max(0, nowMs - Date.parse(deployment.at));
  const ago = formatDurationMs(Math.round(agoMs / 1_000) * 1_000);
  const isRegression = deployment.verdict === "regression";
  if (!isRegression && agoMs > thresholds.recentDeploymentMs) return [];
  const name = deployment.version ?? (deployment.build === null ? "a new build" : `build ${deployment.build.slice(0, 12)}`);
  if (isRegression) {
    return [
      finding(
        "deployment-regression",
        "warning",
        "cause",
        deployment.id,
        `worse since ${name} was deployed ${ago} ago: ${deployment.reason}`,
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
    regression: "",
  }[deployment.verdict];
  return [finding("deployed", "info", "context", deployment.id, `${name} was deployed ${ago} ago: ${verdict}`, 1, 0, "count")];
}

function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function perSecondText(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)}/s`;
}

function ratioText(times: number): string {
  return `${times.toFixed(times < 10 ? 1 : 0)} times`;
}

function shortened(text: string): string {
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}
