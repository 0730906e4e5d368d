import type { InspectedDatabase } from "../../model/database-facts.ts";
import type { ColonyBackend, DatabaseProblem } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";

/** Queries every agent where the service listens. The problem code `not-found` means that the agent has no credentials for it. */
export async function inspectService(
  backend: ColonyBackend,
  { service, statement }: { service: string; statement: string | null },
  context: ToolCallContext,
): Promise<{ found: InspectedDatabase[]; problems: DatabaseProblem[] }> {
  const places = await backend.services({ service, processes: false }, context);
  const targets = places.map(({ agentId, ports }) => ({
    agentId,
    ports: ports.flatMap(({ port, protocol }) => (port === null || protocol?.startsWith("udp") ? [] : [port])),
  }));
  const asked = targets.filter(({ ports }) => ports.length > 0);
  if (asked.length === 0)
    return { found: [], problems: [{ agentId: "", code: "not-found", message: `no agent sees a listener of "${service}"` }] };
  return await backend.inspectDatabases({ service, statement, targets: asked }, context);
}
