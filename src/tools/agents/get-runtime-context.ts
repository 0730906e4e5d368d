import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import { cutList } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { runtimeContextListSchema } from "../schemas/runtime.ts";

const agentsMax = 20;

export const getRuntimeContext = defineTool({
  name: "coral_get_runtime_context",
  title: "Where an agent runs and what it can do",
  description: "Show where an agent runs (native, container, Kubernetes) and its capabilities, with reason and fix when absent.",
  input: z.object({
    agent: z.string().min(1).optional().describe("id or host; default: all"),
    refresh: z.boolean().default(false).describe("detect again now"),
    history: z.int().min(0).max(100).default(0).describe("how many of the newest changes to show"),
  }),
  output: runtimeContextListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, { agent, refresh, history }, context) => {
    const all = activeAgents(await backend.agents(context));
    const wanted = agent === undefined ? all : matchAgents(all, agent);
    const shown = cutList(wanted, agentsMax, "agents", "name one with agent");
    const agents = await Promise.all(
      shown.items.map(async ({ agentId, hostname, version, isLegacy }) => ({
        agentId,
        hostname,
        version,
        isLegacy,
        ...(await backend.runtimeContext({ agentId, refresh, history }, context)),
      })),
    );
    return { output: { total: wanted.length, agents }, completeness: completenessOf(shown.notes) };
  },
});
