/** The colony's metrics, with gauges that read the registry and the store. Revoked agents are not counted. */

import { runtimeProtocolVersion } from "../model/runtime-facts.ts";
import type { ColonyStore } from "../store/colony/index.ts";
import type { ColonyContext } from "./core/colony-context.ts";
import { type AgentKinds, type ColonyMetrics, createColonyMetrics } from "./core/colony-metrics.ts";
import type { Members } from "./open-members.ts";
import type { AgentEntry, AgentRegistry } from "./registry/agent-registry.ts";
import type { RuntimeRegistry } from "./registry/runtime-registry.ts";

export function openMetrics({ config }: ColonyContext, store: ColonyStore, { registry, runtimes }: Members): ColonyMetrics {
  return createColonyMetrics({
    agentsByHealth: () => countByHealth(registry),
    agentKinds: { colonyId: config.id, read: () => countByKind(registry, runtimes) },
    storeBytes: async () => {
      const { usedBytes, walBytes } = await store.database.size();
      return usedBytes + walBytes;
    },
  });
}

function countByHealth(registry: AgentRegistry): Record<string, number> {
  const counts: Record<string, number> = { healthy: 0, degraded: 0, unhealthy: 0 };
  for (const entry of trusted(registry)) {
    const health = registry.healthOf(entry);
    counts[health] = (counts[health] ?? 0) + 1;
  }
  return counts;
}

function countByKind(registry: AgentRegistry, runtimes: RuntimeRegistry): AgentKinds {
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
