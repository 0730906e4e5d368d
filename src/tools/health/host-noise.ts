/** How much a busy host slows down everything on it: what a single service is not blamed for. */

import { fineLayout, mergeHistograms, percentileNs } from "../../base/latency-histogram.ts";
import type { SummaryFacts, SummaryHostFact, SummaryRouteHealthFact } from "../../model/summary.ts";

export interface HostNoise {
  /** The median of what was added to the p95 of fast routes. */
  addedUs: number;
  /** By so many times at least are two thirds of all routes slower. */
  times: number;
}

export const quiet: HostNoise = { addedUs: 0, times: 1 };

/** Only requests that are this fast show what waiting for a CPU adds. */
const fastUs = 10_000;
/** Slower ones wait for other things than a CPU. */
const comparedUs = 200_000;
/** On a host that is always busy, few are. */
const fastWhenBusyUs = 50_000;
const enoughRequests = 20;
const enoughRoutes = 4;
/** Of so few services most routes may share one cause. */
const enoughServices = 4;
const noiseMaxUs = 20_000;
/** Whoever wakes up on a busy host waits for the time slices of others, of 3 to 4 ms each. */
const sliceUs = 5_000;
/** A cause that all share, such as a database, fills a host, too: it shows beyond this. */
const timesMax = 2;
/** Verdicts are about the last windows; so is the noise. */
const recentMs = 60_000;

/** By agent. Nothing of hosts with CPU to spare. */
export function hostNoise({
  routes,
  places,
  hosts,
  nowMs,
}: Pick<SummaryFacts, "routes" | "places" | "hosts" | "nowMs">): Map<string, HostNoise> {
  const busy = new Set(hosts.filter((host) => !isCalm(host)).map(({ agentId }) => agentId));
  if (busy.size === 0) return new Map();
  const agentsOf = new Map<string, string[]>();
  for (const { service, agentId, isPresent } of places)
    if (isPresent && busy.has(agentId)) agentsOf.set(service, [...(agentsOf.get(service) ?? []), agentId]);
  const compared = new Map<string, Compared[]>();
  for (const route of routes) {
    const usualUs = route.before?.p95Us ?? null;
    const p95Us = recentP95Us(route, nowMs);
    if (route.requests < enoughRequests || p95Us === null || !usualUs || usualUs > comparedUs) continue;
    for (const agentId of agentsOf.get(route.service) ?? [])
      compared.set(agentId, [...(compared.get(agentId) ?? []), { service: route.service, usualUs, p95Us }]);
  }
  return new Map([...compared].map(([agentId, of]) => [agentId, noiseOf(of)]));
}

interface Compared {
  service: string;
  usualUs: number;
  p95Us: number;
}

function noiseOf(compared: readonly Compared[]): HostNoise {
  const ascending = (a: number, b: number): number => a - b;
  const addedBelow = (maxUs: number): number[] =>
    compared.flatMap(({ usualUs, p95Us }) => (usualUs <= maxUs ? [Math.max(0, p95Us - usualUs)] : [])).sort(ascending);
  const fast = addedBelow(fastUs);
  const added = fast.length >= enoughRoutes ? fast : addedBelow(fastWhenBusyUs);
  const times = compared.map(({ usualUs, p95Us }) => p95Us / usualUs).sort(ascending);
  const isVaried = new Set(compared.map(({ service }) => service)).size >= enoughServices;
  return {
    addedUs: Math.max(sliceUs, added.length >= enoughRoutes ? Math.min(noiseMaxUs, added[Math.floor(added.length / 2)] ?? 0) : 0),
    times: isVaried ? Math.min(timesMax, Math.max(1, times[Math.floor(times.length / 3)] ?? 1)) : 1,
  };
}

/** Of the last minute where its windows were read and have enough requests; else of the five minutes. */
function recentP95Us({ cells, p95Us }: SummaryRouteHealthFact, nowMs: number): number | null {
  const recent = cells.filter(({ endMs }) => endMs > nowMs - recentMs);
  if (recent.reduce((sum, { requests }) => sum + requests, 0) < enoughRequests) return p95Us;
  const durations = recent.map((cell) => cell.durations).reduce(mergeHistograms);
  return (percentileNs(fineLayout, durations, 0.95) ?? 0) / 1_000;
}

/** Below these a host does not make its services slow. */
const calm = { cpuBusyRatio: 0.7, psiCpuRatio: 0.2 };

function isCalm({ cpuBusyRatio, psiCpuRatio }: SummaryHostFact): boolean {
  return (cpuBusyRatio ?? 0) < calm.cpuBusyRatio && (psiCpuRatio ?? 0) < calm.psiCpuRatio;
}
