/** How much a busy host slows down everything on it: what a single service is not blamed for. */

import type { SummaryFacts, SummaryHostFact } from "../../model/summary.ts";

/** Only requests that are this fast show what waiting for a CPU adds. */
const fastUs = 10_000;
const enoughRequests = 20;
const enoughRoutes = 4;
const noiseMaxUs = 20_000;

/** By agent, microseconds: the median of what was added to the p95 of fast routes there. Nothing on hosts with CPU to spare. */
export function hostNoise({ routes, places, hosts }: Pick<SummaryFacts, "routes" | "places" | "hosts">): Map<string, number> {
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
