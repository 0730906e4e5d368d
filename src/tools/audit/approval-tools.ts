/** Commands that wait for approval. For people, not for models. */

import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { matchAgents } from "../contract/match-agents.ts";
import { cutList } from "../contract/missing-data.ts";
import { approvalDecidedSchema, approvalListSchema } from "../schemas/audit.ts";
import { completenessOf } from "../schemas/completeness.ts";

export const listApprovals = defineTool({
  name: "coral_list_approvals",
  title: "List approvals",
  description: "List commands that a rule holds until they are approved or denied.",
  input: z.object({}),
  output: approvalListSchema,
  permission: "exec",
  changes: false,
  handle: async (backend: ColonyBackend, _input, context) => {
    const { items, notes } = cutList(await backend.approvals(context), 500, "approvals", "decide some of them first");
    return { output: { approvals: items }, completeness: completenessOf(notes) };
  },
});

export const decideApproval = defineTool({
  name: "coral_decide_approval",
  title: "Approve or deny a command",
  description: "Approve or deny a held command. Its caller may deny it, and may approve it only where the config allows that.",
  input: z.object({
    id: z.string().min(4).describe("id of the command, or a prefix of it"),
    approve: z.boolean(),
    reason: z.string().max(500).optional().describe("why; recorded in the audit"),
    agent: z.string().min(1).optional().describe("only at this agent (id or host name)"),
  }),
  output: approvalDecidedSchema,
  permission: "admin",
  changes: true,
  handle: async (backend: ColonyBackend, input, context) => {
    const agent = input.agent === undefined ? undefined : matchAgents(await backend.agents(context), input.agent)[0];
    const outcomes = await backend.decideApproval(
      {
        approvalId: input.id,
        isApproved: input.approve,
        ...(input.reason === undefined ? {} : { reason: input.reason }),
        ...(agent === undefined ? {} : { agentId: agent.agentId }),
      },
      context,
    );
    return { output: { outcomes }, completeness: completenessOf([]) };
  },
});
