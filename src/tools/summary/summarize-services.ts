/** Turns facts of all services into summaries, worst first. */

import { hasUnknownOwner } from "../../model/service-identity.ts";
import type { SummaryCallFact, SummaryFacts, SummaryRequestsFact } from "../../model/summary.ts";
import { whatWasDeployed } from "../deployments/deployment-text.ts";
import { judgeRoutes } from "../health/judge-routes.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { Deployment } from "../schemas/deployment.ts";
import {
  healthLevels,
  type ServiceSummary,
  type SummaryBaseline,
  type SummaryFinding,
  type SummaryHealth,
  type SummaryRequests,
} from "../schemas/summary.ts";
import { perSecond, ratio } from "../traffic/red-rows.ts";
import { trafficProblemOf } from "../traffic/traffic-notes.ts";
import { findCauses } from "./find-causes.ts";
import { finding } from "./finding.ts";
import { hostFindings } from "./load-rules.ts";
import { type ServiceFacts, sortFindings, summaryFindings } from "./summary-rules.ts";

export interface SummarizeInput {
  /** Services that are always included; absent: all services with any facts. */
  service?: string | undefined;
  facts: SummaryFacts;
  /** Deployments of the last day, newest first. */
  deployments: readonly Deployment[];
  agents: readonly AgentInfo[];
  nowMs: number;
}

/**
 * The facts and the summary of each service, without details. Worst first. At equal health, services with their own fault precede
 * those affected by a callee, and a cause precedes everything that it explains.
 */
export function summarizeServices(input: SummarizeInput): { summary: ServiceSummary; facts: ServiceFacts }[] {
  const judged = factsByService(input).map((facts) => ({ facts, findings: summaryFindings(facts) }));
  const causes = findCauses(judged);
  const all = judged.map(({ facts, findings }) => {
    const cause = causes.get(facts.service) ?? null;
    // A saturated host shows as slowness that no callee explains.
    const isSlow = findings.some(({ rule, severity }) => (rule === "latency" || rule === "queueing") && severity !== "info");
    const complete = isSlow && cause === null ? sortFindings([...findings, ...hostFindings(facts)]) : findings;
    return { summary: summaryOf(facts, complete, input.agents), facts };
  });
  const order = orderOf(
    all.map(({ summary }) => summary),
    causes,
  );
  return all.sort((a, b) => order(a.summary, b.summary));
}

/** A cause ranks just before the worst service that it explains. */
function orderOf(
  summaries: readonly ServiceSummary[],
  causes: ReadonlyMap<string, string>,
): (a: ServiceSummary, b: ServiceSummary) => number {
  const level = ({ health }: ServiceSummary): number => healthLevels.indexOf(health);
  const ranks = new Map(summaries.map((summary) => [summary.service, level(summary)]));
  const isIll = (service: string): boolean => (ranks.get(service) ?? healthLevels.length) < healthLevels.indexOf("unknown");
  for (const { service } of summaries) {
    // Follow the chain of calls; stop at a cycle.
    const seen = new Set([service]);
    let cause = causes.get(service);
    while (cause !== undefined && !seen.has(cause) && isIll(cause)) {
      ranks.set(cause, Math.min(ranks.get(cause) ?? 0, ranks.get(service) ?? 0));
      seen.add(cause);
      cause = causes.get(cause);
    }
  }
  const depths = new Map(summaries.map(({ service }) => [service, depthOf(service, causes, isIll)]));
  return (a, b) =>
    (ranks.get(a.service) ?? 0) - (ranks.get(b.service) ?? 0) ||
    (depths.get(a.service) ?? 0) - (depths.get(b.service) ?? 0) ||
    weight(b) - weight(a) ||
    (a.service < b.service ? -1 : 1);
}

/** Hops from a service to the cause of its symptoms; 0 when the fault is its own. */
function depthOf(service: string, causes: ReadonlyMap<string, string>, isIll: (service: string) => boolean): number {
  const seen = new Set([service]);
  let depth = 0;
  for (let cause = causes.get(service); cause !== undefined && !seen.has(cause); cause = causes.get(cause)) {
    depth++;
    // An unobserved callee may be the cause; its callers still rank after services with their own fault.
    if (!isIll(cause)) break;
    seen.add(cause);
  }
  return depth;
}

/** Ratio of the worst finding to its threshold. */
function weight({ findings }: ServiceSummary): number {
  const [worst] = findings;
  if (!worst || worst.severity === "info") return 0;
  return worst.threshold > 0 ? worst.value / worst.threshold : 10;
}

function summaryOf(facts: ServiceFacts, found: readonly SummaryFinding[], agents: readonly AgentInfo[]): ServiceSummary {
  const health = healthOf(found, facts, agents);
  // `down` needs no further findings.
  const isUnexplained = health === "unknown" && !found.some(({ rule }) => rule === "down");
  const findings = isUnexplained ? [unobserved(facts, agents), ...found] : [...found];
  const places = facts.places.filter(({ isStale }) => !isStale);
  const { deployment } = facts;
  return {
    service: facts.service,
    health,
    findings,
    requests: facts.requests,
    instances: places.reduce((sum, { instances, isPresent }) => sum + (isPresent ? instances : 0), 0),
    hosts: places.filter(({ isPresent }) => isPresent).length,
    deployment:
      deployment === null
        ? null
        : {
            at: deployment.at,
            what: whatWasDeployed(deployment),
            verdict: deployment.verdict,
            isComplete: deployment.isComplete,
            reason: deployment.reason,
          },
  };
}

/**
 * `ok` needs evidence: requests, records, a passing check, or a process on a host that is sampled by an agent that would see requests.
 */
export function healthOf(findings: readonly SummaryFinding[], facts: ServiceFacts, agents: readonly AgentInfo[]): SummaryHealth {
  if (findings.some(({ severity }) => severity === "critical")) return "critical";
  if (findings.some(({ severity }) => severity === "warning")) return "degraded";
  // Requests before it ended are not evidence of health.
  if (findings.some(({ rule }) => rule === "down")) return "unknown";
  const { requests, routes, places, hosts, isLogging } = facts;
  const here = places.filter(({ isPresent, isStale }) => isPresent && !isStale);
  // What was stored before says nothing of now.
  if (here.length > 0 && here.every(({ agentId }) => heard(agentId, agents)?.storeProblem)) return "unknown";
  if (isLogging || (requests?.requests ?? 0) > 0 || routes.some(({ fact }) => fact.requests > 0)) return "ok";
  const isSeen = ({ service, health, agentId }: ServiceFacts["places"][number]): boolean => {
    const agent = heard(agentId, agents);
    if (!agent) return false;
    if (health === "healthy") return true;
    return !hasUnknownOwner(service) && trafficProblemOf(agent) === null && hosts.some((host) => host.agentId === agentId);
  };
  return here.some(isSeen) ? "ok" : "unknown";
}

const heard = (agentId: string, agents: readonly AgentInfo[]): AgentInfo | undefined =>
  agents.find((agent) => agent.agentId === agentId && agent.health !== "unhealthy");

/** Why a service is unknown, with the fix. */
function unobserved({ places, hostname }: ServiceFacts, agents: readonly AgentInfo[]): SummaryFinding {
  const present = places.filter(({ isPresent, isStale }) => isPresent && !isStale);
  const [first] = present;
  const storeProblem = first && heard(first.agentId, agents)?.storeProblem;
  if (storeProblem) {
    const who = storeProblem.at === "agent" ? hostname(first.agentId) : "the colony";
    return finding("unobserved", "info", "context", "", `not known now: ${who} cannot store rows: ${storeProblem.reason}`, 0, 0, "count");
  }
  const reason = ((): string => {
    const [place] = present;
    if (!place) return "no process is known; start it, or send spans or log records";
    const agent = heard(place.agentId, agents);
    const host = hostname(place.agentId);
    if (!agent) return `the agent on ${host} is not connected; on ${host} run coral agent status`;
    const problem = trafficProblemOf(agent);
    if (problem !== null) return `the agent on ${host} sees no requests (${problem}); fix that, or add a health check with coral connect`;
    if (hasUnknownOwner(place.service))
      return `the agent on ${host} cannot see the process behind this port; run it as root and outside of containers, or add a health check with coral connect`;
    return `host ${host} sends no samples; on ${host} run coral agent status`;
  })();
  return finding("unobserved", "info", "context", "", `no data: ${reason}`, 0, 0, "count");
}

function grouped<T extends { service: string }>(rows: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(row.service);
    if (group) group.push(row);
    else groups.set(row.service, [row]);
  }
  return groups;
}

function factsByService({ service: requested, facts, deployments, agents, nowMs }: SummarizeInput): ServiceFacts[] {
  const requests = requestsByService(facts);
  const [places, patterns, events] = [grouped(facts.places), grouped(facts.patterns), grouped(facts.events)];
  const judged = judgeRoutes(facts);
  const isGone = goneServices(facts);
  const [callsOf, callersOf] = [new Map<string, SummaryCallFact[]>(), new Map<string, SummaryCallFact[]>()];
  for (const call of facts.calls) {
    callsOf.set(call.service, [...(callsOf.get(call.service) ?? []), call]);
    callersOf.set(call.callee, [...(callersOf.get(call.callee) ?? []), call]);
  }
  const deploymentOf = new Map([...deployments].reverse().map((deployment) => [deployment.service, deployment]));
  const hostOf = new Map(facts.hosts.map((host) => [host.agentId, host]));
  const cgroupsOf = new Map<string, SummaryFacts["cgroups"]>();
  for (const group of facts.cgroups)
    for (const service of group.services) cgroupsOf.set(service, [...(cgroupsOf.get(service) ?? []), group]);
  const names = new Map(agents.map((agent) => [agent.agentId, agent.hostname]));
  const hostname = (agentId: string): string => names.get(agentId) ?? agentId;
  const logging = new Set(facts.logServices.map((service) => facts.aliases.get(service) ?? service));
  const seen = facts.places.filter(({ isStale }) => !isStale).map(({ service }) => service);
  // Services known only from yesterday's baseline have nothing to judge.
  const asking = [...requests].filter(([, { server, client }]) => [server, client].some((one) => one && (one.requests > 0 || one.before)));
  const live = new Set([...asking.map(([service]) => service), ...seen, ...logging, ...(requested === undefined ? [] : [requested])]);
  return [...live].map((service): ServiceFacts => {
    const own = places.get(service) ?? [];
    const counted = requests.get(service);
    return {
      service,
      requests: counted?.server ?? counted?.client ?? null,
      countedAs: counted?.countedAs ?? service,
      routes: judged.get(service) ?? [],
      calls: callsOf.get(service) ?? [],
      calledBy: callersOf.get(service) ?? [],
      hasFailingCallers: (callersOf.get(service) ?? []).some(
        (call) => call.before.requests >= 10 && (judged.get(call.service) ?? []).some(({ errors }) => errors !== null && !errors.isChronic),
      ),
      hasLostCallers: lostCallers(callersOf.get(service) ?? [], isGone),
      isReplaced: isTakenOver(callersOf.get(service) ?? [], callsOf),
      places: own,
      hosts: own
        .flatMap(({ agentId, isPresent }) => (isPresent && hostOf.get(agentId) ? [hostOf.get(agentId)] : []))
        .filter((host) => host !== undefined),
      cgroups: cgroupsOf.get(service) ?? [],
      patterns: patterns.get(service) ?? [],
      isLogging: logging.has(service),
      events: events.get(service) ?? [],
      deployment: deploymentOf.get(service) ?? null,
      windowMs: facts.windowMs,
      nowMs,
      hostname,
    };
  });
}

/** A known service without any process left. */
function goneServices({ places }: SummaryFacts): (service: string) => boolean {
  const present = new Set(places.filter(({ isPresent, isStale }) => isPresent && !isStale).map(({ service }) => service));
  const known = new Set(places.map(({ service }) => service));
  return (service) => known.has(service) && !present.has(service);
}

/** The callers that sent half of its requests have ended. */
function lostCallers(callers: readonly SummaryCallFact[], isGone: (service: string) => boolean): boolean {
  const total = callers.reduce((sum, { before }) => sum + before.requests, 0);
  const gone = callers.filter(({ service }) => isGone(service)).reduce((sum, { before }) => sum + before.requests, 0);
  return total > 0 && gone >= total / 2;
}

/** Its callers now send as many requests to a service that they did not call before. */
function isTakenOver(callers: readonly SummaryCallFact[], callsOf: ReadonlyMap<string, SummaryCallFact[]>): boolean {
  return callers.some((caller) => {
    if (caller.now.requests > 0 || caller.before.requests === 0) return false;
    const perMinute = caller.before.requests / 30;
    const calls = callsOf.get(caller.service) ?? [];
    return calls.some(({ callee, now, before }) => callee !== caller.callee && before.requests === 0 && now.requests >= perMinute / 2);
  });
}

interface Requests {
  countedAs: string;
  server?: SummaryRequests;
  client?: SummaryRequests;
}

/**
 * Hooks win, because they see every request. Spans count for services without any request seen by hooks, under the name that
 * the process was discovered by.
 */
function requestsByService({ requests, aliases }: SummaryFacts): Map<string, Requests> {
  const byHooks = new Set(requests.filter(({ source }) => source === "hooks").map(({ service, role }) => `${role} ${service}`));
  const rows = new Map<string, Map<SummaryRequestsFact["period"], SummaryRequestsFact>>();
  for (const fact of requests) {
    const service = fact.source === "spans" ? (aliases.get(fact.service) ?? fact.service) : fact.service;
    if (fact.source === "spans" && byHooks.has(`${fact.role} ${service}`)) continue;
    const key = JSON.stringify([service, fact.role]);
    const periods = rows.get(key) ?? new Map<SummaryRequestsFact["period"], SummaryRequestsFact>();
    rows.set(key, periods);
    periods.set(fact.period, fact);
  }
  const services = new Map<string, Requests>();
  for (const [key, periods] of rows) {
    const [service, role] = JSON.parse(key) as [string, "server" | "client"];
    const one = services.get(service) ?? { countedAs: [...periods.values()][0]?.service ?? service };
    services.set(service, one);
    one[role] = requestsOf(role, periods);
  }
  return services;
}

function requestsOf(role: "server" | "client", periods: ReadonlyMap<string, SummaryRequestsFact>): SummaryRequests {
  const now = periods.get("now");
  const source = now?.source ?? [...periods.values()][0]?.source ?? "hooks";
  return {
    source,
    role,
    requests: now?.requests ?? 0,
    errors: now?.errors ?? 0,
    ...amountsOf(now),
    p50Us: now?.p50Us ?? null,
    p99Us: now?.p99Us ?? null,
    before: baselineOf(periods.get("before")),
    yesterday: baselineOf(periods.get("yesterday")),
  };
}

type Amounts = Pick<SummaryRequestsFact, "requests" | "errors" | "p95Us" | "coveredMs">;

export function amountsOf(fact: Amounts | undefined): NonNullable<SummaryBaseline> {
  if (!fact) return { perSecond: 0, errorRatio: 0, p95Us: null };
  return { perSecond: perSecond(fact.requests, fact.coveredMs), errorRatio: ratio(fact.errors, fact.requests), p95Us: fact.p95Us };
}

export function baselineOf(fact: Amounts | undefined): SummaryBaseline {
  return fact === undefined ? null : amountsOf(fact);
}
