/**
 * What one end's view of a connection means. An end says what it knows: its own service and the other's address; who that other is, is found
 * here, so that what is learned later also explains what was stored before.
 */

import { isLocalAddress, isPrivateAddress } from "./sql-parts.ts";

/** Columns that tell one view from another; amounts are summed by them. */
export const viewKey = [
  ...[
    "agent_id",
    "netns",
    "role",
    "service",
    "own_address",
    "peer_address",
    "protocol",
    "server_port",
    "pairing",
    "peer_agent",
    "peer_service",
  ],
] as const;

/** The key of an end in net.connection_sides as `s`. Ends without a service are only counted, so their addresses do not matter. */
export const sideKey = `s.agent_id, CASE WHEN s.is_local THEN s.netns ELSE 0 END AS netns, s.role, s.service,
  CASE WHEN s.service = '' THEN '' WHEN s.role = 'client' THEN s.client_address ELSE s.server_address END AS own_address,
  CASE WHEN s.service = '' AND s.peer_service = '' THEN '*' WHEN s.role = 'client' THEN s.server_address ELSE s.client_address END AS peer_address,
  s.protocol, s.edge_port AS server_port, s.pairing, s.peer_agent, s.peer_service`;

/**
 * SQL that gives every view in `views` (a relation with the key's columns, one row per key) its other end: `peer_kind` (`service`, `host`,
 * `external`), `peer_name`, `class`, `confidence`, `evidence`. Views without a service of their own are left out.
 *
 * Both ends attributed: INTERNAL 0.9. The other one's address and port, or address alone for a caller, in the address registry: INTERNAL 0.7.
 * Outside: 0.9 when it has a name and a public address, 0.7 when other agents could have seen the other end, 0.5 when there are none.
 */
export function classifySql(database: string, views: string): string {
  const net = `"${database}".net`;
  const key = viewKey.map((name) => `v.${name}`).join(", ");
  return `
  WITH view AS (SELECT * FROM (${views}) WHERE service <> ''),
  address AS (SELECT *, ${isLocalAddress("address")} AS is_local FROM ${net}.service_addresses),
  -- Who listens there: as its own agent sees it, and as everybody does when only one service answers.
  listen_here AS (
    SELECT agent_id, CASE WHEN is_local THEN netns ELSE 0 END AS netns, address, port, protocol, any_value(service) AS service
    FROM address WHERE port > 0 GROUP BY ALL HAVING count(DISTINCT service) = 1
  ),
  listen_all AS (
    SELECT address, port, protocol, any_value(service) AS service FROM address WHERE port > 0 AND NOT is_local
    GROUP BY ALL HAVING count(DISTINCT service) = 1
  ),
  -- Who calls from there: a container has its address for itself, the services of a host share theirs.
  call_here AS (
    SELECT agent_id, address, any_value(service) AS service FROM address WHERE NOT is_local GROUP BY ALL HAVING count(DISTINCT service) = 1
  ),
  call_all AS (
    SELECT address, any_value(service) AS service FROM address WHERE NOT is_local
    GROUP BY ALL HAVING count(DISTINCT service) = 1 AND count(DISTINCT agent_id) = 1
  ),
  owned AS (SELECT DISTINCT agent_id, address FROM address WHERE NOT is_local),
  owner AS (SELECT address, any_value(agent_id) AS agent_id FROM owned GROUP BY address HAVING count(*) = 1),
  -- Calls from a host whose ports were translated: the only service there that calls the same server.
  caller AS (
    SELECT o.agent_id, v.peer_address AS server_address, v.server_port, v.protocol, any_value(v.service) AS service
    FROM view v JOIN owned o ON o.agent_id = v.agent_id WHERE v.role = 'client' AND v.pairing = ''
    GROUP BY ALL HAVING count(DISTINCT v.service) = 1
  ),
  found AS (
    SELECT ${key}, ${isLocalAddress("v.peer_address")} AS is_local, here.agent_id IS NOT NULL AS own_host,
      CASE WHEN v.peer_service <> '' THEN v.peer_service
        WHEN v.role = 'client' THEN coalesce(lh.service, CASE WHEN here.agent_id IS NULL THEN la.service END)
        WHEN ${isLocalAddress("v.peer_address")} THEN NULL
        WHEN here.agent_id IS NOT NULL THEN ch.service
        ELSE coalesce(caller.service, ca.service) END AS peer,
      CASE WHEN v.peer_agent <> '' THEN v.peer_agent WHEN here.agent_id IS NOT NULL OR ${isLocalAddress("v.peer_address")} THEN v.agent_id
        ELSE owner.agent_id END AS peer_host,
      r.resolved_name
    FROM view v
    LEFT JOIN owned here ON here.agent_id = v.agent_id AND here.address = v.peer_address
    LEFT JOIN owner ON owner.address = v.peer_address
    LEFT JOIN listen_here lh ON v.role = 'client' AND lh.agent_id = v.agent_id AND lh.netns = v.netns AND lh.address = v.peer_address
      AND lh.port = v.server_port AND lh.protocol = v.protocol
    LEFT JOIN listen_all la ON v.role = 'client' AND la.address = v.peer_address AND la.port = v.server_port AND la.protocol = v.protocol
    LEFT JOIN call_here ch ON v.role = 'server' AND ch.agent_id = v.agent_id AND ch.address = v.peer_address
    LEFT JOIN call_all ca ON v.role = 'server' AND ca.address = v.peer_address
    LEFT JOIN caller ON v.role = 'server' AND caller.agent_id = owner.agent_id AND caller.server_address = v.own_address
      AND caller.server_port = v.server_port AND caller.protocol = v.protocol
    LEFT JOIN ${net}.endpoint_resolution r ON r.ip_address = v.peer_address
  )
  SELECT ${viewKey.join(", ")}, peer_kind, CASE peer_kind WHEN 'service' THEN peer WHEN 'host' THEN peer_host ELSE peer_address END AS peer_name,
    CASE WHEN peer_kind <> 'external' THEN 'INTERNAL' WHEN role = 'client' THEN 'EGRESS' ELSE 'INGRESS' END AS class,
    CASE WHEN peer_service <> '' THEN 0.9 WHEN peer_kind <> 'external' THEN 0.7
      WHEN resolved_name IS NOT NULL AND NOT ${isPrivateAddress("peer_address")} THEN 0.9
      WHEN (SELECT count(*) FROM ${net}.agent_scans) > 1 THEN 0.7 ELSE 0.5 END AS confidence,
    CASE WHEN peer_service <> '' AND pairing = 'matched' THEN ['both-ends'] WHEN peer_service <> '' THEN ['both-ends', pairing]
      WHEN peer_kind <> 'external' THEN [role || '-end', 'address-registry']
      WHEN resolved_name IS NOT NULL AND NOT ${isPrivateAddress("peer_address")} THEN [role || '-end', 'named-outside'] ELSE [role || '-end'] END AS evidence
  FROM (SELECT *, CASE WHEN peer IS NOT NULL THEN 'service' WHEN peer_host IS NOT NULL AND peer_address <> '*' THEN 'host' ELSE 'external' END AS peer_kind
    FROM found)`;
}
