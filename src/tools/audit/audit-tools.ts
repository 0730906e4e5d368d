/** Listing, showing and verifying the audit. For people with the permission `admin`, not for models. */

import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { given } from "../../base/given.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { matchAgents } from "../contract/match-agents.ts";
import { cutList, lossNotes } from "../contract/missing-data.ts";
import { auditEntriesSchema, auditListSchema, auditVerificationSchema, type ExpectedLink } from "../schemas/audit.ts";
import { completenessOf } from "../schemas/completeness.ts";

const maxEntries = 500;

export const listAudit = defineTool({
  name: "coral_list_audit",
  title: "List audit records",
  description: "List who ran which command, capture, query or approval where, by which rule, and how it ended; newest first.",
  input: z.object({
    since: sinceInput("24h", { maxMs: 400 * 86_400_000 }),
    user: z.string().min(1).optional().describe("only callers that contain this text, such as token:ann or uid=1000"),
    command: z.string().min(1).optional().describe("only commands that contain this text"),
    target: z.string().min(1).optional().describe("only targets, containers and agent names that contain this text"),
    agent: agentInput(),
    kind: z
      .string()
      .min(1)
      .optional()
      .describe("only this kind: exec, shell, run, capture, sql, approval, token, agent, replay; chain, pruned, anchor"),
    outcome: z.enum(["denied", "failed", "open"]).optional().describe("only records with this outcome; open: not finished yet"),
    limit: limitInput(100, 1_000),
  }),
  output: auditListSchema,
  permission: "admin",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const agents = await backend.agents(context);
    const named = input.target?.toLowerCase();
    const request = {
      sinceMs: input.since,
      limit: input.limit + 1,
      ...given({ caller: input.user, command: input.command, target: input.target, kind: input.kind, outcome: input.outcome }),
      ...(input.agent === undefined ? {} : { agentIds: matchAgents(agents, input.agent).map(({ agentId }) => agentId) }),
      ...(named === undefined
        ? {}
        : {
            targetAgentIds: agents
              .filter(({ agentId, hostname }) => agentId.includes(named) || hostname.toLowerCase().includes(named))
              .map(({ agentId }) => agentId),
          }),
    };
    const { items, notes } = cutList(
      await backend.audit(request, context),
      input.limit,
      "or more records",
      "narrow the filters, or raise limit",
    );
    // Entries that were lost before the colony pulled them are missing from the list.
    const lost = await backend.losses({ signals: ["audit"], sinceMs: input.since }, context);
    return { output: { records: items }, completeness: completenessOf([...notes, ...lossNotes(lost)]) };
  },
});

export const getAudit = defineTool({
  name: "coral_get_audit",
  title: "Show the audit of one command",
  description: "Show every audit entry of one command, from the colony and all agents, with its position in its hash chain.",
  input: z.object({ id: z.string().min(4).describe("id of the command, or a prefix of it") }),
  output: auditEntriesSchema,
  permission: "admin",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const found = await backend.auditEntries({ id: input.id, limit: maxEntries + 1 }, context);
    const ids = [...new Set(found.map(({ id }) => id))];
    const [id] = ids;
    if (id === undefined)
      throw new CoralError({
        code: "not-found",
        message: `Cannot find "${input.id}" in the audit: no command has this id; see coral audit list`,
      });
    if (ids.length > 1)
      throw new CoralError({
        code: "invalid",
        message: `Cannot show command "${input.id}": ${ids.length} commands match; use a longer prefix`,
      });
    const { items, notes } = cutList(found, maxEntries, "entries", "name an agent");
    return { output: { id, entries: items }, completeness: completenessOf(notes) };
  },
});

export const verifyAudit = defineTool({
  name: "coral_verify_audit",
  title: "Verify the audit",
  description:
    "Verify every hash chain: the colony's own, its copies of the agents' chains, and those at the agents, and compare them. Reports what was changed, removed, added or rewritten.",
  input: z.object({
    agent: z.string().min(1).optional().describe("only this agent (id or host name); default: all, and the colony"),
    expect: z
      .array(z.string().regex(/^[\w-]{1,64}:\d{1,15}:[0-9a-f]{64}$/, "use chain:entry:hash as printed by an earlier verification"))
      .max(50)
      .optional()
      .describe("chain:entry:hash that an earlier verification printed and you kept elsewhere"),
  }),
  output: auditVerificationSchema,
  permission: "admin",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const agents = input.agent === undefined ? undefined : matchAgents(await backend.agents(context), input.agent);
    const request = {
      ...(agents === undefined ? {} : { agentIds: agents.map(({ agentId }) => agentId) }),
      ...(input.expect === undefined ? {} : { expected: input.expect.map(expectedLink) }),
    };
    const output = await backend.verifyAudit(request, context);
    return { output, completeness: completenessOf(output.notes.map((message) => ({ kind: "unavailable" as const, message }))) };
  },
});

function expectedLink(text: string): ExpectedLink {
  const [chainId = "", entry = "", hash = ""] = text.split(":");
  return { chainId, entry: Number(entry), hash };
}
