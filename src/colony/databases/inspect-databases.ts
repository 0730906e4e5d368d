/** Lets agents inspect the databases that they have credentials for, and names the services that hold their locks. */

import { createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import type { DatabaseFacts, InspectedDatabase, LockHolderFact } from "../../model/database-facts.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import type { ColonyBackend, DatabaseProblem } from "../../tools/index.ts";
import { fromConnectError } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";

export interface InspectDatabasesOptions {
  registry: Pick<AgentRegistry, "find">;
  store: Pick<ColonyStore, "query">;
}

const timeoutMs = 12_000;
const maxAgents = 8;

export function createInspectDatabases({ registry, store }: InspectDatabasesOptions): ColonyBackend["inspectDatabases"] {
  return async ({ service, statement, targets }, context) => {
    const signal = AbortSignal.any([context.signal, AbortSignal.timeout(timeoutMs)]);
    const found: InspectedDatabase[] = [];
    const problems: DatabaseProblem[] = [];
    const ask = async ({ agentId, ports }: (typeof targets)[number]): Promise<void> => {
      try {
        const tunnel = registry.find(agentId)?.session?.tunnel;
        if (tunnel === undefined) throw new CoralError({ code: "unavailable", message: "it is not connected" });
        const request = { ports: [...ports], statement: statement ?? "", caller: context.caller ?? "", service };
        const { answer } = await createClient(AgentService, tunnel.transport).inspectDatabase(request, { signal });
        const read = JSON.parse(answer) as Omit<InspectedDatabase, "agentId">[];
        for (const one of read) found.push({ agentId, ...one, facts: await withHolders(one.facts, one.port, store) });
      } catch (error) {
        const { code, message } = fromConnectError(error);
        problems.push({ agentId, code, message: `agent "${agentId}" cannot inspect "${service}": ${message}` });
      }
    };
    await Promise.all(targets.slice(0, maxAgents).map(ask));
    context.signal.throwIfAborted();
    return { found, problems };
  };
}

/** The client's end of the connection, as its agent saw it: the service that holds the lock. */
async function withHolders(facts: DatabaseFacts, serverPort: number, store: Pick<ColonyStore, "query">): Promise<DatabaseFacts> {
  const locks = await Promise.all(
    facts.locks.map(async (lock) => ({ ...lock, holder: { ...lock.holder, service: await serviceOf(lock.holder, serverPort, store) } })),
  );
  return { ...facts, locks };
}

async function serviceOf(
  { clientAddress, clientPort }: LockHolderFact,
  serverPort: number,
  store: Pick<ColonyStore, "query">,
): Promise<string | null> {
  if (clientAddress === null || clientPort === null) return null;
  const [row] = await store.query(
    `SELECT service FROM raw.connection WHERE role = 'client' AND service IS NOT NULL AND client_port = ? AND server_port = ?
       AND (client_address = ? OR replace(client_address, '::ffff:', '') = ?) ORDER BY last_seen DESC LIMIT 1`,
    [clientPort, serverPort, clientAddress, clientAddress],
  );
  const service = row?.["service"];
  return typeof service === "string" ? service : null;
}
