import * as z from "zod";
import { capabilityOf, modeLabel, runtimeTypes, sidecarModes } from "../../model/runtime-facts.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { currentAgents } from "../contract/match-agents.ts";
import { cutList } from "../contract/missing-data.ts";
import { type AgentInfo, type AgentSummary, agentHealthSchema, agentListSchema } from "../schemas/agent.ts";
import { completenessOf } from "../schemas/completeness.ts";

export const listAgents = defineTool({
  name: "coral_list_agents",
  title: "List agents",
  description:
    "List the agents (one per host): health, last contact, where they run. verbose adds host, labels, capabilities with reasons.",
  input: z.object({
    match: z.string().min(1).optional().describe("part of an id or host name"),
    health: agentHealthSchema.optional().describe("only agents in this state"),
    runtime: z
      .enum([...runtimeTypes, "unknown"])
      .optional()
      .describe("only agents in this runtime"),
    mode: z
      .enum([...sidecarModes, "host-ns"])
      .optional()
      .describe("how a container sees its host"),
    capability: z.string().min(1).optional().describe("such as exec, shell, ebpf"),
    verbose: z.boolean().default(false),
    limit: limitInput(100, 1000),
  }),
  output: agentListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const match = input.match?.toLowerCase();
    const known = await backend.agents(context);
    const current = currentAgents(known);
    const isListed = (agent: AgentInfo): boolean => agent.revoked || match !== undefined || current.includes(agent);
    const found = known
      .filter(isListed)
      .filter((agent) => input.health === undefined || agent.health === input.health)
      .filter((agent) => fits(agent, input))
      .filter((agent) => match === undefined || agent.agentId.toLowerCase().includes(match) || agent.hostname.toLowerCase().includes(match))
      .sort((a, b) => a.hostname.localeCompare(b.hostname) || a.agentId.localeCompare(b.agentId));
    const shown = cutList(found, input.limit, "agents", "narrow with match or health, or raise limit");
    return {
      output: {
        total: found.length,
        agents: shown.items.map((agent) => ({ ...summaryOf(agent), ...(input.verbose ? { details: agent } : {}) })),
      },
      completeness: completenessOf(shown.notes),
    };
  },
});

interface RuntimeFilter {
  runtime?: string | undefined;
  mode?: string | undefined;
  capability?: string | undefined;
}

/** Agents without a runtime context (older versions) are assumed to have every capability. */
function fits({ runtime }: AgentInfo, filter: RuntimeFilter): boolean {
  if (filter.runtime !== undefined && (runtime?.runtimeType ?? "unknown") !== filter.runtime) return false;
  if (filter.mode !== undefined) {
    const mode = runtime === null ? "" : runtime.sidecarMode || (modeLabel(runtime) === "Host NS" ? "host-ns" : "");
    if (mode !== filter.mode) return false;
  }
  if (filter.capability === undefined || runtime === null) return true;
  return capabilityOf(runtime, filter.capability)?.available === true;
}

/** Group for display: the label `component` or `app`, else the host. */
export function componentOf({ labels, hostname }: Pick<AgentInfo, "labels" | "hostname">): string {
  return labels["component"] ?? labels["app"] ?? hostname;
}

function summaryOf(agent: AgentInfo): AgentSummary {
  const { agentId, hostname, health, healthReason, connected, version, lastContactAgoMs, pullLagMs, link, revoked, isLegacy, runtime } =
    agent;
  return {
    agentId,
    hostname,
    component: componentOf(agent),
    health,
    healthReason,
    connected,
    version,
    lastContactAgoMs,
    pullLagMs,
    link,
    revoked,
    isLegacy,
    runtimeType: runtime?.runtimeType ?? "",
    mode: runtime === null ? "-" : modeLabel(runtime),
  };
}
