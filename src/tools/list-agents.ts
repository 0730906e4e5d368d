import * as z from "zod";
import type { ColonyBackend } from "./backend.ts";
import { completenessOf } from "./completeness.ts";
import { defineTool } from "./define-tool.ts";
import { cutList } from "./missing-data.ts";
import { type AgentInfo, type AgentSummary, agentHealthSchema, agentListSchema } from "./schemas/agent.ts";

export const listAgents = defineTool({
  name: "coral_list_agents",
  title: "List agents",
  description: "The agents (one per host) with their health and last contact. verbose adds host, version, labels and capabilities.",
  input: z.object({
    match: z.string().min(1).optional().describe("part of an id or host name"),
    health: agentHealthSchema.optional(),
    verbose: z.boolean().default(false),
    limit: z.int().min(1).max(1000).default(100),
  }),
  output: agentListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const match = input.match?.toLowerCase();
    const found = (await backend.agents(context))
      .filter((agent) => input.health === undefined || agent.health === input.health)
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

function summaryOf(agent: AgentInfo): AgentSummary {
  const { agentId, hostname, health, healthReason, connected, version, lastContactAgoMs, pullLagMs, revoked } = agent;
  return { agentId, hostname, health, healthReason, connected, version, lastContactAgoMs, pullLagMs, revoked };
}
