/** Builds the details of one service: routes, callers, callees, hosts, events, and the onset of its problem. */

import type { HotFunction, HotFunctions } from "../../model/profiles.ts";
import type { ServiceDetailsFacts } from "../../model/summary.ts";
import { routeSubject } from "../deployments/deployment-text.ts";
import { share } from "../health/figures.ts";
import { thresholds } from "../health/thresholds.ts";
import type { SummaryDetails, SummaryFinding, SummaryHost, SummaryPeer, SummaryRequests, SummaryRoute } from "../schemas/summary.ts";
import { perSecond, ratio } from "../traffic/red-rows.ts";
import { finding } from "./finding.ts";
import { amountsOf, baselineOf } from "./summarize-services.ts";
import type { ServiceFacts } from "./summary-rules.ts";

const routesShown = 8;
const peersShown = 10;
const patternsShown = 10;
const eventsShown = 15;
const hostsShown = 10;
const functionsShown = 5;
const grownShown = 3;
/** Least CPU samples for a share. */
const enoughSamples = 50;
/** Least requests for a share or a percentile. */
const enoughRequests = 20;
const minSlowUs = 2_000;
/** Least requests of a step that is judged. */
const enoughInStep = 5;

export function describeService(
  facts: ServiceFacts,
  details: ServiceDetailsFacts,
  hot: HotFunctions,
  findings: readonly SummaryFinding[],
): SummaryDetails {
  const role = facts.requests?.role ?? "server";
  const { course } = details;
  const now = details.load.find(({ period }) => period === "now");
  const before = details.load.find(({ period }) => period === "before");
  return {
    onsetAt: onsetOf(facts.requests, course, findings),
    routes: routesOf(details.routes, role),
    callers: peersOf(details.peers, "server"),
    callees: peersOf(details.peers, "client"),
    hosts: facts.hosts.slice(0, hostsShown).map((host): SummaryHost => hostOf(host, facts)),
    load:
      now === undefined
        ? null
        : {
            cpuCores: now.cpuCores,
            rssBytes: now.rssBytes,
            before: before === undefined ? null : { cpuCores: before.cpuCores, rssBytes: before.rssBytes },
          },
    newPatterns: facts.patterns
      .filter(({ isNew }) => isNew)
      .slice(0, patternsShown)
      .map(({ pattern, severity, template, records, firstAt }) => ({ pattern, severity, template, records, firstAt })),
    hotFunctions: hotFunctionsOf(hot),
    events: facts.events.slice(0, eventsShown).map(({ at, kind, severity, message }) => ({ at, kind, severity, message })),
    course: {
      startAt: new Date(course.startMs).toISOString(),
      stepMs: course.stepMs,
      perSecond: course.requests.map((requests) => perSecond(requests, course.stepMs)),
      errorRatio: course.requests.map((requests, index) => ratio(course.errors[index] ?? 0, requests)),
      p95Us: course.p95Us,
    },
  };
}

/** Functions that grew beyond chance, then those with the most CPU time. Empty with too few samples. */
function hotFunctionsOf({ samples, hottest, grown }: HotFunctions): SummaryDetails["hotFunctions"] {
  if (samples.now < enoughSamples) return [];
  const grew = grown.filter(({ isSignificant }) => isSignificant).slice(0, grownShown);
  const known = new Set(grew.map(functionKey));
  const rest = hottest.filter((one) => !known.has(functionKey(one)));
  return [...grew, ...rest].slice(0, functionsShown).map((one) => ({
    name: one.name,
    file: one.file,
    self: one.self.now,
    total: one.total.now,
    totalBefore: samples.before < enoughSamples ? null : one.total.before,
    grew: known.has(functionKey(one)),
  }));
}

function functionKey({ name, file }: HotFunction): string {
  return `${name}\n${file}`;
}

function routesOf(rows: ServiceDetailsFacts["routes"], role: "server" | "client"): SummaryRoute[] {
  const before = new Map(rows.filter(({ period }) => period === "before").map((row) => [routeSubject(row), row]));
  return rows
    .filter((row) => row.period === "now" && row.role === role)
    .slice(0, routesShown)
    .map((row) => ({
      route: routeSubject(row),
      requests: row.requests,
      ...amountsOf(row),
      before: baselineOf(before.get(routeSubject(row))),
    }));
}

/** Changed peers, then the busiest. */
function peersOf(rows: ServiceDetailsFacts["peers"], role: "server" | "client"): SummaryPeer[] {
  const own = rows.filter((row) => row.role === role);
  const before = new Map(own.filter(({ period }) => period === "before").map((row) => [row.peer, row]));
  const hasBefore = own.some(({ period }) => period === "before");
  const now = own.filter(({ period }) => period === "now");
  const seen = new Set(now.map(({ peer }) => peer));
  const gone = [...before.values()].filter((row) => !seen.has(row.peer));
  const peers = [
    ...now.map((row): SummaryPeer => {
      const [amounts, baseline] = [amountsOf(row), baselineOf(before.get(row.peer))];
      return {
        peer: row.peer,
        requests: row.requests,
        ...amounts,
        before: baseline,
        change: changeOf({ ...amounts, requests: row.requests }, baseline, hasBefore),
      };
    }),
    ...gone.map(
      (row): SummaryPeer => ({
        peer: row.peer,
        requests: 0,
        ...amountsOf(undefined),
        before: baselineOf(row),
        change: row.requests >= enoughRequests ? "gone" : "",
      }),
    ),
  ];
  return peers
    .filter(({ requests, change }) => requests > 0 || change !== "")
    .sort((a, b) => Number(b.change !== "") - Number(a.change !== "") || b.requests - a.requests)
    .slice(0, peersShown);
}

function changeOf(
  now: Pick<SummaryPeer, "requests" | "perSecond" | "errorRatio" | "p95Us">,
  before: SummaryPeer["before"],
  hasBefore: boolean,
): SummaryPeer["change"] {
  if (now.requests < enoughRequests) return "";
  if (now.errorRatio > thresholds.errors.warning && now.errorRatio > 2 * (before?.errorRatio ?? 0)) return "failing";
  if (before === null) return hasBefore ? "new" : "";
  const times = now.p95Us !== null && before.p95Us ? now.p95Us / before.p95Us : 1;
  const { warning } = thresholds.latency;
  if (times > warning && (now.p95Us ?? 0) >= minSlowUs) return "slower";
  if (times < 1 / warning && (before.p95Us ?? 0) >= minSlowUs) return "faster";
  if (now.perSecond > 3 * before.perSecond) return "busier";
  return now.perSecond < before.perSecond / 3 ? "quieter" : "";
}

/** Findings about callees that fail or got slower over the shown period. Informational: verdicts use the last windows only. */
export function calleeFindings({ callees }: Pick<SummaryDetails, "callees">, isSuffering: boolean): SummaryFinding[] {
  return callees.flatMap(({ peer, change, errorRatio, requests, p95Us, before }): SummaryFinding[] => {
    if (change === "failing") {
      const message = `${share(errorRatio)} of ${Math.round(requests).toLocaleString("en-US")} requests it sent to ${peer} failed`;
      return [
        finding("callee-failing", isSuffering ? "warning" : "info", "cause", peer, message, errorRatio, thresholds.errors.warning, "ratio"),
      ];
    }
    if (change !== "slower" || p95Us === null || !before?.p95Us) return [];
    const times = p95Us / before.p95Us;
    const message = `its calls to ${peer} take ${times.toFixed(1)} times as long as before`;
    return [finding("callee-slower", isSuffering ? "warning" : "info", "cause", peer, message, times, thresholds.latency.warning, "times")];
  });
}

function hostOf(host: ServiceFacts["hosts"][number], { cgroups, hostname, service }: ServiceFacts): SummaryHost {
  const { agentId, cpuBusyRatio, memUsedRatio, psiCpuRatio, psiMemoryRatio, psiIoRatio } = host;
  return {
    agentId,
    hostname: hostname(agentId),
    cpuBusyRatio,
    memUsedRatio,
    psiCpuRatio,
    psiMemoryRatio,
    psiIoRatio,
    // A systemd slice shared by several services cannot be attributed to one.
    cgroups: cgroups
      .filter((group) => group.agentId === agentId && group.services.length === 1 && group.services[0] === service)
      .slice(0, hostsShown)
      .map(({ cgroup, cpuCores, cpuLimitCores, throttledRatio, memUsedBytes, memLimitBytes }) => ({
        cgroup,
        cpuCores,
        cpuLimitCores,
        throttledRatio,
        memUsedBytes,
        memLimitBytes,
      })),
  };
}

/**
 * Start of the last run of steps that are as bad as now, allowing one better step in between. Null when nothing is wrong, or when
 * the whole series is bad.
 */
export function onsetOf(
  requests: SummaryRequests | null,
  course: ServiceDetailsFacts["course"],
  findings: readonly SummaryFinding[],
): string | null {
  if (requests === null) return null;
  const has = (...rules: string[]): boolean => findings.some(({ rule, severity }) => rules.includes(rule) && severity !== "info");
  const usualUs = Math.min(...[requests.before?.p95Us, requests.yesterday?.p95Us].map((us) => us ?? Number.POSITIVE_INFINITY));
  const slowUs = has("latency") && Number.isFinite(usualUs) && requests.p95Us !== null ? Math.sqrt(usualUs * requests.p95Us) : null;
  const failing = has("errors", "errors-rising") ? requests.errorRatio / 2 : null;
  if (slowUs === null && failing === null) return null;
  let [onset, good] = [-1, 0];
  for (let at = course.requests.length - 1; at >= 0; at--) {
    const count = course.requests[at] ?? 0;
    if (count < enoughInStep) continue;
    const isBad =
      (slowUs !== null && (course.p95Us[at] ?? 0) >= slowUs) || (failing !== null && (course.errors[at] ?? 0) / count >= failing);
    if (isBad) {
      onset = at;
      good = 0;
    } else if (++good > 1) break;
  }
  return onset <= 0 || good < 2 ? null : new Date(course.startMs + onset * course.stepMs).toISOString();
}
