/** How many agents there are; revoked ones are not counted. */

import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";
import type { AgentKinds } from "../core/colony-metrics.ts";
import type { AgentEntry, AgentRegistry } from "./agent-registry.ts";
import type { RuntimeRegistry } from "./runtime-registry.ts";

export function countByHealth(registry: AgentRegistry): Record<string, number> {
  const counts: Record<string, number> = { healthy: 0, degraded: 0, unhealthy: 0 };
  for (const entry of trusted(registry)) {
    const health = registry.healthOf(entry);
    counts[health] = (counts[health] ?? 0) + 1;
  }
  return counts;
}

export function countByKind(registry: AgentRegistry, runtimes: RuntimeRegistry): AgentKinds {
  const agents = trusted(registry);
  const counts = new Map<string, { runtimeType: string; sidecarMode: string; agents: number }>();
  for (const { record } of agents) {
    const { runtimeType = "unknown", sidecarMode = "" } = runtimes.of(record.agentId)?.facts ?? {};
    const key = `${runtimeType} ${sidecarMode}`;
    const count = counts.get(key) ?? { runtimeType, sidecarMode, agents: 0 };
    counts.set(key, { ...count, agents: count.agents + 1 });
  }
  return {
    total: agents.length,
    legacy: agents.filter(({ record }) => record.protocolVersion < runtimeProtocolVersion).length,
    runtimes: [...counts.values()],
  };
}

function trusted(registry: AgentRegistry): AgentEntry[] {
  return [...registry.entries()].filter(({ record }) => !registry.isRevoked(record.agentId));
}
