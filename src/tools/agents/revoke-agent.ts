import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { matchAgents } from "../contract/match-agents.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { agentRevokedSchema } from "../schemas/token.ts";

export const revokeAgent = defineTool({
  name: "coral_revoke_agent",
  title: "Revoke an agent",
  description: "Reject an agent's certificates from now on and close its connection. Its stored rows stay.",
  input: z.object({ agent: z.string().min(1).describe("agent id or host name") }),
  output: agentRevokedSchema,
  permission: "admin",
  changes: true,
  handle: async (backend: ColonyBackend, input, context) => {
    const [agent, ...others] = matchAgents(await backend.agents(context), input.agent);
    if (agent === undefined || others.length > 0) {
      const ids = [agent, ...others].map((match) => match?.agentId).join(", ");
      throw new CoralError({
        code: "invalid",
        message: `Cannot revoke agent "${input.agent}": several hosts have this name; use one of these ids: ${ids}`,
      });
    }
    return { output: await backend.revokeAgent(agent.agentId, context), completeness: completenessOf([]) };
  },
});
