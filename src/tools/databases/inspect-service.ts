import type { InspectedDatabase } from "../../model/database-facts.ts";
import type { ColonyBackend, DatabaseProblem } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";

/** Asks every agent where the service listens. A problem with the code `not-found` means that its agent has no credentials for it. */
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
    return { found: [], problems: [{ agentId: "", code: "not-found", message: `no agent sees "${service}" listen` }] };
  return await backend.inspectDatabases({ service, statement, targets: asked }, context);
}
