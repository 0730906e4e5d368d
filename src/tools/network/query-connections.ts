import * as z from "zod";
import { given } from "../../base/given.ts";
import type { ConnectionsFacts, ConnectionsRequest } from "../../model/connections.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { lossNotes, silentAgentNotes } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { connectionListSchema, trafficRoleSchema } from "../schemas/traffic.ts";
import { findService } from "../services/find-service.ts";

export const queryConnections = defineTool({
  name: "coral_query_connections",
  title: "Connections",
  description:
    "TCP and UDP connections of services by peer and port: open now, opened, closed, failed (refused, reset, timed out), bytes, round trip, retransmits.",
  input: z.object({
    service: z.string().min(1).optional().describe("default: all"),
    peer: z.string().min(1).optional().describe("only with this other end: service, name outside or address"),
    role: trafficRoleSchema.optional().describe("server: was called; client: calls"),
    agent: z.string().min(1).optional().describe("agent id or host name"),
    since: durationInput({ minMs: 1_000, maxMs: 90 * 86_400_000 })
      .prefault("5m")
      .describe("how far back: 5m, 2h, 7d"),
    limit: z.int().min(1).max(10_000).default(50),
  }),
  output: connectionListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
    const request: ConnectionsRequest = {
      sinceMs: input.since,
      limit: input.limit,
      ...given({ service: input.service, peer: input.peer, role: input.role }),
      ...which,
    };
    const [facts, losses] = await Promise.all([
      readConnections(backend, request, context),
      backend.losses({ signals: ["connection"], sinceMs: input.since, ...which }, context),
    ]);
    const notes = [...silentAgentNotes(chosen ?? agents), ...lossNotes(losses)];
    if (agents.length === 0) notes.push({ kind: "no-data", message: "no agent has joined this colony; start one with coral agent start" });
    if (facts.total > facts.rows.length)
      notes.push({
        kind: "limit",
        message: `${facts.rows.length} of ${facts.total} rows are shown; narrow with service or peer, or raise limit`,
      });
    if (facts.unattributed > 0)
      notes.push({
        kind: "unattributed",
        rows: facts.unattributed,
        message: `${facts.unattributed} connections and failed attempts are left out: their processes had ended before it was known which service they belong to, or may not be read (coral doctor)`,
      });
    return { output: { sinceMs: input.since, total: facts.total, connections: facts.rows }, completeness: completenessOf(notes) };
  },
});

async function readConnections(backend: ColonyBackend, request: ConnectionsRequest, context: ToolCallContext): Promise<ConnectionsFacts> {
  const facts = await backend.connections(request, context);
  if (facts.rows.length > 0 || request.service === undefined) return facts;
  const service = await findService(backend, request.service, context);
  return service === request.service ? facts : await backend.connections({ ...request, service }, context);
}
