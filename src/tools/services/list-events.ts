import * as z from "zod";
import { given } from "../../base/given.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import { cutList, missingNotes } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { eventListSchema } from "../schemas/event.ts";

export const listEvents = defineTool({
  name: "coral_list_events",
  title: "List events",
  description:
    "List what happened, newest first: services restarted, updated or unhealthy, new external callers (ingress-new) and dependencies (egress-new), log patterns (log-pattern-new, log-burst), agents, losses.",
  input: z.object({
    agent: agentInput(),
    service: serviceInput(),
    kind: z.string().min(1).optional().describe("only this kind, such as service-restarted or egress-new"),
    since: sinceInput("1h", { maxMs: 365 * 86_400_000 }),
    limit: limitInput(50, 1000),
  }),
  output: eventListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const known = await backend.agents(context);
    const agents = input.agent === undefined ? undefined : matchAgents(known, input.agent);
    const which = agents === undefined ? {} : { agentIds: agents.map((agent) => agent.agentId) };
    const request = {
      sinceMs: input.since,
      // Read one more than requested to detect whether there are more.
      limit: input.limit + 1,
      ...which,
      ...given({ kind: input.kind, service: input.service }),
    };
    const events = await backend.events(request, context);
    const { items, notes } = cutList(
      events,
      input.limit,
      "or more events",
      "shorten since, narrow with agent, service or kind, or raise limit",
    );
    const scope = { agents: agents ?? activeAgents(known), which, signals: ["agent_event"], sinceMs: input.since };
    return { output: { events: items }, completeness: completenessOf([...notes, ...(await missingNotes(backend, scope, context))]) };
  },
});
