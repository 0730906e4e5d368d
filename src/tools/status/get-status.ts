import * as z from "zod";
import type { HostNow } from "../../model/host.ts";
import { modeLabel } from "../../model/runtime-facts.ts";
import { componentOf } from "../agents/list-agents.ts";
import { runtimeDistribution } from "../agents/runtime-distribution.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { currentAgents } from "../contract/match-agents.ts";
import { cutList, lossNotes, silentAgentNotes } from "../contract/missing-data.ts";
import type { AgentHealth, AgentInfo } from "../schemas/agent.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { type ColonyStatus, colonyStatusSchema } from "../schemas/status.ts";
import { readHealth } from "../summary/read-health.ts";
import { readOpenIncidents } from "../summary/read-open-incidents.ts";
import { attentionOf, gapWindowMs, unobservedOf } from "./attention.ts";
import { statusWarnings } from "./status-warnings.ts";

const hostsMax = 50;
const warningsMax = 50;
const attentionMax = 10;
const lossWindowMs = 86_400_000;
const severity: Record<AgentHealth, number> = { unhealthy: 0, degraded: 1, healthy: 2 };

export const getStatus = defineTool({
  name: "coral_get_status",
  title: "Colony status",
  description: "Show an overview of the colony: agents by health, current CPU and memory of each host, warnings with fixes.",
  input: z.object({}),
  output: colonyStatusSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, _input, context) => {
    const [facts, allAgents, hostsNow, places, losses, health, coverage, incidents] = await Promise.all([
      backend.status(context),
      backend.agents(context),
      backend.hostsNow(context),
      backend.services({ processes: false }, context),
      backend.losses({ sinceMs: lossWindowMs }, context),
      readHealth(backend, context),
      backend.coverage({ sinceMs: gapWindowMs }, context),
      readOpenIncidents(backend, undefined, context),
    ]);
    const agents = currentAgents(allAgents);
    const hosts = hostLines(agents, hostsNow);
    const shown = cutList(hosts, hostsMax, "hosts", "coral_list_agents lists them all");
    const warnings = cutList(statusWarnings(facts, agents, losses), warningsMax, "warnings", "fix these first");
    const names = new Map(agents.map(({ agentId, hostname }) => [agentId, hostname]));
    const first = [...attentionOf(health, hostsNow, (agentId) => names.get(agentId) ?? agentId), ...unobservedOf(agents, coverage)];
    const attention = cutList(first, attentionMax, "services and hosts that need attention", "coral_query_summary lists them all");
    const slow = agents.filter((agent) => agent.link?.isSlow).length;
    const count = (health: AgentHealth): number => agents.filter((agent) => agent.health === health).length;
    return {
      output: {
        colony: facts.colony,
        attention: attention.items,
        ...(incidents && { incidents }),
        agents: {
          total: agents.length,
          healthy: count("healthy"),
          degraded: count("degraded"),
          unhealthy: count("unhealthy"),
          ...(slow > 0 ? { slow } : {}),
          connected: agents.filter((agent) => agent.connected).length,
        },
        hosts: shown.items,
        runtimes: runtimeDistribution(agents, facts.registration),
        services: { total: new Set(places.filter((place) => place.status !== "stale").map((place) => place.service)).size },
        store: facts.store,
        warnings: warnings.items,
      },
      completeness: completenessOf([
        ...silentAgentNotes(agents),
        ...lossNotes(losses),
        ...shown.notes,
        ...attention.notes,
        ...warnings.notes,
      ]),
    };
  },
});

/** Unhealthy first, then by CPU. */
function hostLines(agents: readonly AgentInfo[], hostsNow: readonly HostNow[]): ColonyStatus["hosts"] {
  const nowOf = new Map(hostsNow.map((host) => [host.agentId, host]));
  return agents
    .map((agent): ColonyStatus["hosts"][number] => {
      const { agentId, hostname, health, link, isLegacy, lastContactAgoMs } = agent;
      const now = nowOf.get(agentId);
      return {
        agentId,
        hostname,
        health,
        component: componentOf(agent),
        runtimeType: agent.runtime?.runtimeType ?? "",
        mode: agent.runtime === null ? "-" : modeLabel(agent.runtime),
        isLegacy,
        lastContactAgoMs,
        isSlow: link?.isSlow ?? false,
        sampledAt: now?.sampledAt ?? null,
        cpuBusyRatio: now?.cpuBusyRatio ?? null,
        cpuBusyMinuteRatio: now?.cpuBusyMinuteRatio ?? null,
        cpuCount: now?.cpuCount ?? null,
        memUsedRatio: now?.memUsedRatio ?? null,
        memTotalBytes: now?.memTotalBytes ?? null,
        load1m: now?.load1m ?? null,
      };
    })
    .sort((a, b) => severity[a.health] - severity[b.health] || (b.cpuBusyRatio ?? -1) - (a.cpuBusyRatio ?? -1));
}
