/** Facts of all services become summaries, worst first. */

import type { SummaryFacts, SummaryRequestsFact } from "../../model/summary.ts";
import { whatWasDeployed } from "../deployments/describe-deployment.ts";
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
import { type ServiceFacts, summaryFindings } from "./summary-rules.ts";

export interface SummarizeInput {
  /** Always included; absent: all services with any facts. */
  service?: string | undefined;
  facts: SummaryFacts;
  /** Of the last day, newest first. */
  deployments: readonly Deployment[];
  agents: readonly AgentInfo[];
  nowMs: number;
}

/** The facts of each service, and its summary without details. Worst first; of the same health those that suffer by themselves before those that may suffer from others. */
export function summarizeServices(input: SummarizeInput): { summary: ServiceSummary; facts: ServiceFacts }[] {
  const all = factsByService(input).map((facts) => ({ summary: summaryOf(facts, input.agents), facts }));
  return all.sort(
    (a, b) =>
      healthLevels.indexOf(a.summary.health) - healthLevels.indexOf(b.summary.health) ||
      Number(isPassedOn(a.summary)) - Number(isPassedOn(b.summary)) ||
      weight(b.summary) - weight(a.summary) ||
      (b.summary.requests?.perSecond ?? 0) - (a.summary.requests?.perSecond ?? 0) ||
      (a.summary.service < b.summary.service ? -1 : 1),
  );
}

/** Its symptoms may come from its callees, which are the ones to look at first. */
function isPassedOn({ findings }: ServiceSummary): boolean {
  return findings.some(({ rule, severity }) => severity !== "info" && (rule === "calls-failing" || rule === "calls-slower"));
}

/** How many rules fired, by how bad they are. */
function weight({ findings }: ServiceSummary): number {
  return findings.reduce((sum, { severity }) => sum + (severity === "critical" ? 10 : severity === "warning" ? 1 : 0), 0);
}

function summaryOf(facts: ServiceFacts, agents: readonly AgentInfo[]): ServiceSummary {
  const findings = summaryFindings(facts);
  const places = facts.places.filter(({ isStale }) => !isStale);
  const { deployment } = facts;
  return {
    service: facts.service,
    health: healthOf(findings, facts, agents),
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

/** Without requests, what a service is up to is known only while its hosts are heard. */
export function healthOf(
  findings: readonly SummaryFinding[],
  { requests, places, isLogging }: Pick<ServiceFacts, "requests" | "places" | "isLogging">,
  agents: readonly AgentInfo[],
): SummaryHealth {
  if (findings.some(({ severity }) => severity === "critical")) return "critical";
  if (findings.some(({ severity }) => severity === "warning")) return "degraded";
  if (isLogging || (requests !== null && requests.requests > 0)) return "ok";
  const isHeard = (agentId: string): boolean => agents.some((agent) => agent.agentId === agentId && agent.health !== "unhealthy");
  return places.some(({ isPresent, isStale, agentId }) => isPresent && !isStale && isHeard(agentId)) ? "ok" : "unknown";
}

function factsByService({ service: asked, facts, deployments, agents, nowMs }: SummarizeInput): ServiceFacts[] {
  const requests = requestsByService(facts);
  const grouped = <T extends { service: string }>(rows: readonly T[]): Map<string, T[]> => {
    const groups = new Map<string, T[]>();
    for (const row of rows) {
      const group = groups.get(row.service);
      if (group) group.push(row);
      else groups.set(row.service, [row]);
    }
    return groups;
  };
  const [places, patterns, events] = [grouped(facts.places), grouped(facts.patterns), grouped(facts.events)];
  const deploymentOf = new Map([...deployments].reverse().map((deployment) => [deployment.service, deployment]));
  const hostOf = new Map(facts.hosts.map((host) => [host.agentId, host]));
  const cgroupsOf = new Map<string, SummaryFacts["cgroups"]>();
  for (const group of facts.cgroups)
    for (const service of group.services) cgroupsOf.set(service, [...(cgroupsOf.get(service) ?? []), group]);
  const names = new Map(agents.map((agent) => [agent.agentId, agent.hostname]));
  const hostname = (agentId: string): string => names.get(agentId) ?? agentId;
  const logging = new Set(facts.logServices.map((service) => facts.aliases.get(service) ?? service));
  const seen = facts.places.filter(({ isStale }) => !isStale).map(({ service }) => service);
  const live = new Set([...requests.keys(), ...seen, ...logging, ...(asked === undefined ? [] : [asked])]);
  return [...live].map((service): ServiceFacts => {
    const own = places.get(service) ?? [];
    const answered = requests.get(service);
    return {
      service,
      requests: answered?.server ?? answered?.client ?? null,
      countedAs: answered?.countedAs ?? service,
      queueMeanUs: answered?.queueMeanUs ?? null,
      meanUs: answered?.meanUs ?? null,
      asked: answered?.client ?? null,
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

interface Requests {
  countedAs: string;
  server?: SummaryRequests;
  client?: SummaryRequests;
  queueMeanUs: number | null;
  meanUs: number | null;
}

/**
 * Hooks come first: they see everything. Spans count for a service of which hooks saw no request in any period, under the name that
 * its process was found by.
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
    const one = services.get(service) ?? { countedAs: [...periods.values()][0]?.service ?? service, queueMeanUs: null, meanUs: null };
    services.set(service, one);
    const now = periods.get("now");
    one[role] = requestsOf(role, periods);
    if (role === "server") {
      one.queueMeanUs = now?.queueMeanUs ?? null;
      one.meanUs = now?.meanUs ?? null;
    }
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
