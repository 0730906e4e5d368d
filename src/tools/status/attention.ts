/** Collects what needs attention first: unhealthy services, saturated hosts, and anything unobserved. */

import type { HostNow } from "../../model/host.ts";
import type { CoverageFacts } from "../contract/backend.ts";
import { gapNotes } from "../contract/coverage-notes.ts";
import { share } from "../health/figures.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { Attention } from "../schemas/status.ts";
import type { ServiceSummary } from "../schemas/summary.ts";
import { trafficProblemOf } from "../traffic/traffic-notes.ts";

const full = { cpuBusyMinuteRatio: 0.95, memUsedRatio: 0.95 };

export function attentionOf(
  services: readonly ServiceSummary[],
  hosts: readonly Pick<HostNow, "agentId" | "cpuBusyMinuteRatio" | "memUsedRatio">[],
  hostname: (agentId: string) => string,
): Attention[] {
  const ill = services.flatMap(({ service, health, findings }): Attention[] =>
    health === "critical" || health === "degraded"
      ? [{ kind: "service", subject: service, severity: health, reason: findings[0]?.message ?? "" }]
      : [],
  );
  const saturated = hosts.flatMap(({ agentId, cpuBusyMinuteRatio, memUsedRatio }): Attention[] => {
    const reasons = [
      ...((cpuBusyMinuteRatio ?? 0) > full.cpuBusyMinuteRatio ? [`CPUs are busy ${share(cpuBusyMinuteRatio ?? 0)} of the time`] : []),
      ...((memUsedRatio ?? 0) > full.memUsedRatio ? [`${share(memUsedRatio ?? 0)} of memory is used`] : []),
    ];
    return reasons.length === 0 ? [] : [{ kind: "host", subject: hostname(agentId), severity: "degraded", reason: reasons.join(", ") }];
  });
  // Keep the order of services: a degraded cause precedes the critical services that it affects.
  return [...ill, ...saturated];
}

/** Hosts named in one line; the rest are counted. */
const hostsNamed = 5;

/** How far back gaps are shown. */
export const gapWindowMs = 3_600_000;

/** Hosts whose requests are not observed, in one line because they usually share a cause; then unobserved time. */
export function unobservedOf(agents: readonly AgentInfo[], coverage: CoverageFacts): Attention[] {
  return [...blindHosts(agents), ...gaps(agents, coverage)];
}

function blindHosts(agents: readonly AgentInfo[]): Attention[] {
  const blind = agents.filter((agent) => trafficProblemOf(agent) !== null);
  const [first] = blind;
  if (first === undefined) return [];
  const names = blind.slice(0, hostsNamed).map(({ hostname }) => hostname);
  const more = blind.length > names.length ? ` and ${blind.length - names.length} more` : "";
  const reason = `requests are not seen: ${trafficProblemOf(first) ?? ""}`;
  return [{ kind: "hooks", subject: `${names.join(", ")}${more}`, severity: "degraded", reason }];
}

function gaps(agents: readonly AgentInfo[], coverage: CoverageFacts): Attention[] {
  return gapNotes(coverage, agents, coverage.nowMs - gapWindowMs).map(({ message, agent }) => {
    const hostname = agents.find(({ agentId }) => agentId === agent)?.hostname ?? "";
    const reason = message.startsWith(`${hostname} `) ? message.slice(hostname.length + 1) : message;
    return { kind: "gap", subject: hostname === "" ? "hosts" : hostname, severity: "degraded", reason };
  });
}
