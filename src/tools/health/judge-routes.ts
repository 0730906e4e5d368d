import type { SummaryFacts, SummaryHostFact } from "../../model/summary.ts";
import { type JudgedRoute, judgeRoute } from "./judge-route.ts";

const known = new WeakMap<SummaryFacts, ReadonlyMap<string, readonly JudgedRoute[]>>();

/** Judges each route under the name that its process was discovered by. Cached per facts object, which tools share. */
export function judgeRoutes(facts: SummaryFacts): ReadonlyMap<string, readonly JudgedRoute[]> {
  const judged = known.get(facts) ?? judgeAll(facts);
  known.set(facts, judged);
  return judged;
}

function judgeAll(facts: SummaryFacts): Map<string, JudgedRoute[]> {
  const noise = hostNoise(facts);
  const noiseOf = new Map<string, number>();
  for (const { service, agentId } of noise.size === 0 ? [] : facts.places)
    noiseOf.set(service, Math.max(noiseOf.get(service) ?? 0, noise.get(agentId) ?? 0));
  const byHooks = new Set(facts.routes.filter(({ source }) => source === "hooks").map(({ service, role }) => `${role} ${service}`));
  const judged = new Map<string, JudgedRoute[]>();
  for (const fact of facts.routes) {
    const service = fact.source === "spans" ? (facts.aliases.get(fact.service) ?? fact.service) : fact.service;
    if (fact.source === "spans" && byHooks.has(`${fact.role} ${service}`)) continue;
    const routes = judged.get(service) ?? [];
    judged.set(service, routes);
    routes.push(judgeRoute(fact, facts.nowMs, noiseOf.get(service) ?? 0));
  }
  return judged;
}

/** Only requests that are this fast show what waiting for a CPU adds. */
const fastUs = 10_000;
const enoughRequests = 20;
const enoughRoutes = 4;
const noiseMaxUs = 20_000;

/**
 * How much a busy host slows down everything on it: no single service is blamed for that. By agent, microseconds: the median of what was added to
 * the p95 of fast routes there. Nothing on hosts with CPU to spare.
 */
function hostNoise({ routes, places, hosts }: Pick<SummaryFacts, "routes" | "places" | "hosts">): Map<string, number> {
  const busy = new Set(hosts.filter((host) => !isCalm(host)).map(({ agentId }) => agentId));
  if (busy.size === 0) return new Map();
  const agentsOf = new Map<string, string[]>();
  for (const { service, agentId, isPresent } of places)
    if (isPresent && busy.has(agentId)) agentsOf.set(service, [...(agentsOf.get(service) ?? []), agentId]);
  const added = new Map<string, number[]>();
  for (const { service, before, p95Us, requests } of routes) {
    if (requests < enoughRequests || p95Us === null || !before?.p95Us || before.p95Us > fastUs) continue;
    for (const agentId of agentsOf.get(service) ?? [])
      added.set(agentId, [...(added.get(agentId) ?? []), Math.max(0, p95Us - before.p95Us)]);
  }
  const noise = new Map<string, number>();
  for (const [agentId, values] of added) {
    const middle = values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
    if (values.length >= enoughRoutes) noise.set(agentId, Math.min(noiseMaxUs, middle));
  }
  return noise;
}

/** Below these a host does not make its services slow. */
const calm = { cpuBusyRatio: 0.7, psiCpuRatio: 0.2 };

function isCalm({ cpuBusyRatio, psiCpuRatio }: SummaryHostFact): boolean {
  return (cpuBusyRatio ?? 0) < calm.cpuBusyRatio && (psiCpuRatio ?? 0) < calm.psiCpuRatio;
}
