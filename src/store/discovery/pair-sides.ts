/** Pairs the two ends of a connection across agents, and across network namespaces of one agent. */

import type { Transaction } from "../engine/database.ts";
import { isLocalAddress } from "./sql-parts.ts";

/** An open end lasts until its agent reports its close. */
const endUs = (side: string): string => `CASE WHEN ${side}.state = 'open' THEN 4611686018427387904 ELSE epoch_us(${side}.last_seen) END`;

interface Rule {
  /** The value of column `pairing`. */
  name: string;
  /** In addition to protocol, client address and client port. */
  condition: string;
  /** True: several candidates make the pair ambiguous. False: the candidate that began nearest in time wins. */
  onlyIfSingle: boolean;
}

/**
 * Private addresses repeat on every host with containers. Ends of different agents are one connection only if neither agent has the peer's
 * address itself.
 */
const otherHost = (addressOfServer: boolean): string => `NOT c.is_local
  AND NOT EXISTS (SELECT 1 FROM owned o WHERE o.agent_id = s.agent_id AND o.address = c.client_address)
  ${addressOfServer ? "AND NOT EXISTS (SELECT 1 FROM owned o WHERE o.agent_id = c.agent_id AND o.address = s.server_address)" : ""}`;

const rules: readonly Rule[] = [
  {
    name: "matched",
    condition: `c.server_address = s.server_address AND c.server_port = s.server_port
      AND ((c.agent_id = s.agent_id AND (NOT c.is_local OR c.netns = s.netns)) OR (c.agent_id <> s.agent_id AND ${otherHost(true)}))`,
    onlyIfSingle: false,
  },
  {
    // A proxy next to the service redirects its calls (REDIRECT): same namespace and client, different server.
    name: "redirected",
    condition: "c.agent_id = s.agent_id AND c.netns = s.netns AND (c.server_address <> s.server_address OR c.server_port <> s.server_port)",
    onlyIfSingle: true,
  },
  {
    // The called address was translated on the way (DNAT: published ports, cluster addresses); the client's is unchanged.
    name: "translated",
    condition: `(c.server_address <> s.server_address OR c.server_port <> s.server_port) AND NOT s.is_local AND NOT c.is_local
      AND ((c.agent_id = s.agent_id AND c.netns <> s.netns) OR (c.agent_id <> s.agent_id AND ${otherHost(false)}))`,
    onlyIfSingle: true,
  },
];

/** Call after consumeConnections(): considers ends whose client address and port appeared in this step. */
export async function pairSides(transaction: Transaction, windowMs: number): Promise<void> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE unpaired AS
     SELECT s.id, s.caller_key, s.agent_id, s.netns, s.role, s.protocol, s.client_address, s.client_port, s.server_address, s.server_port, s.state, s.began,
       s.last_seen, s.is_local, s.service
     FROM net.connection_sides s SEMI JOIN side_change c ON s.caller_key = c.caller_key WHERE s.pairing = '' AND s.client_port <> 0`,
  );
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE owned AS SELECT DISTINCT a.agent_id, a.address FROM net.service_addresses a
     SEMI JOIN (SELECT client_address AS address FROM unpaired UNION ALL SELECT server_address FROM unpaired) u ON u.address = a.address
     WHERE NOT ${isLocalAddress("a.address")}`,
  );
  for (const rule of rules) await pairBy(transaction, rule, windowMs);
  await followPeers(transaction);
}

async function pairBy(transaction: Transaction, rule: Rule, windowMs: number): Promise<void> {
  const windowUs = windowMs * 1_000;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE pair AS
     WITH candidate AS (
       SELECT c.id AS client_id, s.id AS server_id, c.agent_id = s.agent_id AS same_agent, abs(epoch_us(c.began) - epoch_us(s.began)) AS apart_us,
         c.agent_id AS client_agent, c.service AS client_service, s.agent_id AS server_agent, s.service AS server_service, s.server_port
       FROM (SELECT * FROM unpaired WHERE role = 'client') c JOIN (SELECT * FROM unpaired WHERE role = 'server') s ON c.caller_key = s.caller_key
         AND c.protocol = s.protocol AND c.client_address = s.client_address AND c.client_port = s.client_port
       WHERE ${rule.condition}
         AND epoch_us(c.began) <= (${endUs("s")}) + ${windowUs} AND epoch_us(s.began) <= (${endUs("c")}) + ${windowUs}
     )
     SELECT * FROM candidate
     QUALIFY row_number() OVER (PARTITION BY client_id ORDER BY same_agent DESC, apart_us, server_id) = 1
       AND row_number() OVER (PARTITION BY server_id ORDER BY same_agent DESC, apart_us, client_id) = 1
       ${rule.onlyIfSingle ? "AND count(*) OVER (PARTITION BY client_id) = 1 AND count(*) OVER (PARTITION BY server_id) = 1" : ""}`,
  );
  const [found] = await transaction.query("SELECT count(*) AS pairs FROM pair");
  if (Number(found?.["pairs"] ?? 0) === 0) return;
  await transaction.run(
    `UPDATE net.connection_sides s SET view_id = 0, pairing = '${rule.name}', peer_id = p.peer_id, peer_agent = p.peer_agent, peer_service = p.peer_service, edge_port = p.server_port
     FROM (
       SELECT client_id AS id, server_id AS peer_id, server_agent AS peer_agent, server_service AS peer_service, server_port FROM pair
       UNION ALL SELECT server_id, client_id, client_agent, client_service, server_port FROM pair
     ) p WHERE s.id = p.id`,
  );
  await transaction.run("DELETE FROM unpaired WHERE id IN (SELECT client_id FROM pair UNION ALL SELECT server_id FROM pair)");
}

/** Updates peers that were named or renamed after pairing. */
async function followPeers(transaction: Transaction): Promise<void> {
  await transaction.run(
    `UPDATE net.connection_sides s SET view_id = 0, peer_service = f.service
     FROM side_change c JOIN fresh_side f ON f.end_key = c.end_key AND f.first_seen = c.first_seen
     WHERE s.peer_id = c.old_id AND f.service <> '' AND s.peer_service <> f.service`,
  );
}
