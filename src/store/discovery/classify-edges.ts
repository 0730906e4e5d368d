/**
 * Interprets one end's view of a connection. An end reports its own service and the peer's address; the peer's identity is resolved here at
 * query time, so that facts learned later also apply to stored rows.
 */

import type { Transaction } from "../engine/database.ts";
import { isLocalAddress, isPrivateAddress, keyOf } from "./sql-parts.ts";

/** Columns that identify a view. Amounts are summed per view. */
export const viewKey: readonly string[] =
  "agent_id netns role service own_address peer_address protocol server_port pairing peer_agent peer_service".split(" ");

/** The view key of an end in net.connection_sides as `s`. Ends without a service are only counted, so their addresses do not matter. */
export const sideKey = `s.agent_id, CASE WHEN s.is_local THEN s.netns ELSE 0 END AS netns, s.role, s.service,
  CASE WHEN s.service = '' THEN '' WHEN s.role = 'client' THEN s.client_address ELSE s.server_address END AS own_address,
  CASE WHEN s.service = '' AND s.peer_service = '' THEN '*' WHEN s.role = 'client' THEN s.server_address ELSE s.client_address END AS peer_address,
  s.protocol, s.edge_port AS server_port, s.pairing, s.peer_agent, s.peer_service`;

/** Assigns a view to ends without one (`view_id` 0), because they are new or their inputs changed, and stores new views. */
export async function keepViews(transaction: Transaction): Promise<void> {
  const keys = viewKey.join(", ");
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE new_view AS
     SELECT id, ${keyOf(viewKey)} AS view_id, ${keys} FROM (SELECT s.id, ${sideKey} FROM net.connection_sides s WHERE s.view_id = 0)`,
  );
  await transaction.run(
    `INSERT INTO net.edge_views (view_id, ${keys})
     SELECT view_id, ${viewKey.map((name) => `any_value(${name})`).join(", ")} FROM new_view ANTI JOIN net.edge_views v USING (view_id) GROUP BY view_id`,
  );
  await transaction.run("UPDATE net.connection_sides s SET view_id = n.view_id FROM new_view n WHERE s.id = n.id");
}

/** The evidence for an edge, as bits of `evidence`. */
export const evidenceBits = {
  "both-ends": 1,
  redirected: 2,
  translated: 4,
  "client-end": 8,
  "server-end": 16,
  "address-registry": 32,
  "named-outside": 64,
} as const;

/** SQL for the bits of `column` as a list of names. */
export const evidenceNames = (column: string): string =>
  `list_filter([${Object.entries(evidenceBits)
    .map(([name, bit]) => `CASE WHEN ${column} & ${bit} > 0 THEN '${name}' END`)
    .join(", ")}], lambda x: x IS NOT NULL)`;

/**
 * SQL that adds the peer to every row of `views` (a relation with the key's columns and any others): `peer_kind` (`service`, `host`,
 * `external`), `peer_name`, `class`, `confidence`, `evidence` (see evidenceBits). Excludes views without an own service, and views of a
 * called service that its callers already reported. `isEachEnd` includes the latter: then each end is reported separately, and neither
 * lacks anything. Confidence: INTERNAL 0.9 if both ends are attributed. INTERNAL 0.7 if the peer's address and port (for a caller, its
 * address) is in the address registry. External peers: 0.9 with a name and a public address, 0.7 if other agents could have seen the peer,
 * 0.5 if there are no others.
 */
export function classifySql(database: string, views: string, isEachEnd = false): string {
  const net = `"${database}".net`;
  return `
  WITH seen AS MATERIALIZED (SELECT *, ${isLocalAddress("peer_address")} AS is_local FROM (${views}) WHERE service <> ''),
  lone AS MATERIALIZED (SELECT * FROM seen WHERE peer_service = ''),
  address AS MATERIALIZED (
    SELECT a.*, ${isLocalAddress("a.address")} AS is_local FROM ${net}.service_addresses a SEMI JOIN lone ON lone.peer_address = a.address
  ),
  ${namedByAddress},
  ${namedByCalls},
  ${foundSql(net)},
  judged AS (
    SELECT *, CASE WHEN peer IS NOT NULL THEN 'service' WHEN peer_host IS NOT NULL AND peer_address <> '*' THEN 'host' ELSE 'external' END AS peer_kind
    FROM found
  )
  ${pairedSql}
  UNION ALL
  ${judgedSql(net, isEachEnd)}`;
}

/** The service that owns an address, if it is unambiguous. */
const namedByAddress = `
  -- The listener: as its own agent sees it, and as all agents see it if only one service responds.
  listen_here AS (
    SELECT 'client' AS role, agent_id, CASE WHEN is_local THEN netns ELSE 0 END AS netns, address, port, protocol, any_value(service) AS service
    FROM address WHERE port > 0 GROUP BY ALL HAVING min(service) = max(service)
  ),
  listen_all AS (
    SELECT 'client' AS role, address, port, protocol, any_value(service) AS service FROM address WHERE port > 0 AND NOT is_local
    GROUP BY ALL HAVING min(service) = max(service)
  ),
  -- The caller: a container has its own address, the services of a host share one.
  call_here AS (
    SELECT 'server' AS role, agent_id, address, any_value(service) AS service FROM address WHERE NOT is_local GROUP BY ALL HAVING min(service) = max(service)
  ),
  call_all AS (
    SELECT 'server' AS role, address, any_value(service) AS service FROM address WHERE NOT is_local
    GROUP BY ALL HAVING min(service) = max(service) AND min(agent_id) = max(agent_id)
  ),
  owned AS MATERIALIZED (SELECT DISTINCT agent_id, address FROM address WHERE NOT is_local),
  owner AS (SELECT address, any_value(agent_id) AS agent_id FROM owned GROUP BY address HAVING count(*) = 1)`;

/** Callers' reports about calls of which the callee in `lone` only sees a host. */
const namedByCalls = `
  -- Calls from a host whose ports were translated: the only service there that calls the same server.
  caller AS (
    SELECT 'server' AS role, agent_id, peer_address AS server_address, server_port, protocol, any_value(service) AS service
    FROM lone WHERE role = 'client' AND pairing = '' GROUP BY ALL HAVING min(service) = max(service)
  ),
  -- Calls that their callers reported, each under its own name: where the callee cannot tell them apart, its view would only repeat them.
  reported AS (
    SELECT DISTINCT 'server' AS role, agent_id, netns, peer_address AS server_address, server_port, protocol FROM lone WHERE role = 'client' AND pairing = ''
  )`;

/** Views with one known end, and everything found about the peer. */
const foundSql = (net: string): string => `
  found AS (
    SELECT v.*, reported.agent_id IS NOT NULL AS is_reported,
      CASE WHEN v.role = 'client' THEN coalesce(lh.service, CASE WHEN here.agent_id IS NULL THEN la.service END)
        WHEN v.is_local THEN NULL WHEN here.agent_id IS NOT NULL THEN ch.service ELSE coalesce(caller.service, ca.service) END AS peer,
      CASE WHEN v.peer_agent <> '' THEN v.peer_agent WHEN here.agent_id IS NOT NULL OR v.is_local THEN v.agent_id ELSE owner.agent_id END AS peer_host,
      r.resolved_name IS NOT NULL AND NOT ${isPrivateAddress("v.peer_address")} AS is_named
    FROM lone v
    LEFT JOIN owned here ON here.agent_id = v.agent_id AND here.address = v.peer_address
    LEFT JOIN owner ON owner.address = v.peer_address
    LEFT JOIN listen_here lh ON lh.role = v.role AND lh.agent_id = v.agent_id AND lh.netns = v.netns AND lh.address = v.peer_address
      AND lh.port = v.server_port AND lh.protocol = v.protocol
    LEFT JOIN listen_all la ON la.role = v.role AND la.address = v.peer_address AND la.port = v.server_port AND la.protocol = v.protocol
    LEFT JOIN call_here ch ON ch.role = v.role AND ch.agent_id = v.agent_id AND ch.address = v.peer_address
    LEFT JOIN call_all ca ON ca.role = v.role AND ca.address = v.peer_address
    LEFT JOIN caller ON caller.role = v.role AND caller.agent_id = owner.agent_id AND caller.server_address = v.own_address
      AND caller.server_port = v.server_port AND caller.protocol = v.protocol
    LEFT JOIN reported ON reported.role = v.role AND reported.agent_id = CASE WHEN here.agent_id IS NOT NULL OR v.is_local THEN v.agent_id ELSE owner.agent_id END
      AND reported.netns = v.netns AND reported.server_address = v.own_address AND reported.server_port = v.server_port AND reported.protocol = v.protocol
    LEFT JOIN ${net}.endpoint_resolution r ON r.ip_address = v.peer_address
  )`;

/** Views with both ends known. */
const pairedSql = `
  SELECT * EXCLUDE (is_local), 'service' AS peer_kind, peer_service AS peer_name, 'INTERNAL' AS class, 0.9::DOUBLE AS confidence,
    ${evidenceBits["both-ends"]} | CASE pairing WHEN 'redirected' THEN ${evidenceBits.redirected} WHEN 'translated' THEN ${evidenceBits.translated} ELSE 0 END AS evidence
  FROM seen WHERE peer_service <> ''`;

/** All other views, judged by what was found. */
function judgedSql(net: string, isEachEnd: boolean): string {
  const { "address-registry": registry, "named-outside": named } = evidenceBits;
  const ownEnd = `CASE WHEN role = 'client' THEN ${evidenceBits["client-end"]} ELSE ${evidenceBits["server-end"]} END`;
  return `
  SELECT * EXCLUDE (is_local, is_reported, peer, peer_host, is_named, peer_kind), peer_kind,
    CASE peer_kind WHEN 'service' THEN peer WHEN 'host' THEN peer_host ELSE peer_address END,
    CASE WHEN peer_kind <> 'external' THEN 'INTERNAL' WHEN role = 'client' THEN 'EGRESS' ELSE 'INGRESS' END,
    CASE WHEN peer_kind <> 'external' THEN 0.7 WHEN is_named THEN 0.9 WHEN (SELECT count(*) FROM ${net}.agent_scans) > 1 THEN 0.7 ELSE 0.5 END,
    ${ownEnd} | CASE WHEN peer_kind <> 'external' THEN ${registry} WHEN is_named THEN ${named} ELSE 0 END
  FROM judged WHERE ${isEachEnd ? "true" : "NOT (is_reported AND peer_kind = 'host')"}`;
}
