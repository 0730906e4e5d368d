import * as z from "zod";
import { given } from "../../base/given.ts";
import type { ConnectionsFacts, ConnectionsRequest } from "../../model/connections.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, peerInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { missingNotes } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { connectionListSchema, trafficRoleSchema } from "../schemas/traffic.ts";
import { findService } from "../services/find-service.ts";
import { networkKept } from "./read-network.ts";

export const queryConnections = defineTool({
  name: "coral_query_connections",
  title: "Connections",
  description:
    "List TCP and UDP connections of services by peer and port: open, opened, closed, failed (refused, reset, timed out), bytes, round trip, retransmits.",
  input: z.object({
    service: serviceInput(),
    peer: peerInput(),
    role: trafficRoleSchema.optional().describe("accepted by the service (server) or opened by it (client)"),
    agent: agentInput(),
    since: sinceInput("5m", { maxMs: 90 * 86_400_000 }),
    limit: limitInput(50, 10_000),
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
    const [facts, notes] = await Promise.all([
      readConnections(backend, request, context),
      missingNotes(backend, { agents: chosen ?? agents, which, signals: ["connection"], kept: networkKept, sinceMs: input.since }, context),
    ]);
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
        message: `${facts.unattributed} connections and failed attempts are excluded: their processes exited before they could be attributed to a service, or the agent lacks permission to read them (coral doctor)`,
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
