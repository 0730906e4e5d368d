/** Consumes agents' connection rows: updates the known ends, and computes what each new row adds. */

import type { Transaction } from "../engine/database.ts";
import { failures, lostSightAfterMs, silentSidesMaxAgeMs } from "./discovery-settings.ts";
import type { PullRange } from "./pull-range.ts";
import { cleanText, counter, dropTables, isLocalAddress, keyOf, plainAddress, plausibleTime, rowOrder } from "./sql-parts.ts";

const tuple = ["agent_id", "netns", "role", "protocol", "client_address", "client_port", "server_address", "server_port"];
const identity = [...tuple, "first_seen"];
/** Reasons for failed attempts and cut connections, as far as agents can determine them. */
const reasons = ["refused", "reset", "timed_out"] as const;
const same = (columns: readonly string[], a: string, b: string): string =>
  columns.map((name) => `${a}.${name} = ${b}.${name}`).join(" AND ");

/** Consumes a range of rows. Leaves the temporary tables `fresh_side` and `side_change`. Returns the number of ends. */
export async function consumeConnections(transaction: Transaction, range: PullRange): Promise<number> {
  const rows = await readFresh(transaction, range);
  if (rows === 0) return 0;
  await noteAgents(transaction);
  await findChanges(transaction);
  await storeChanges(transaction);
  await transaction.run(dropTables("side_chain"));
  await updateAddresses(transaction);
  return rows;
}

/**
 * The newest row of each end. In a row of role `peer`, the own end counts as the client and the lower port as the server's, so that both
 * ends of such a connection get the same view.
 */
async function readFresh(transaction: Transaction, range: PullRange): Promise<number> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE fresh_side AS
     WITH reported AS (
       SELECT s.agent_id, coalesce(r.netns, 0) AS netns, r.role, lower(${cleanText("r.protocol", 8)}) AS protocol,
         ${plainAddress("r.client_address")} AS ca, r.client_port::INTEGER AS cp, ${plainAddress("r.server_address")} AS sa, r.server_port::INTEGER AS sp,
         r.role = 'peer' AND (r.client_port < r.server_port OR (r.client_port = r.server_port AND ${plainAddress("r.client_address")} > ${plainAddress("r.server_address")})) AS turned,
         r.first_seen, ${cleanText("r.service", 200)} AS service, r.pid, r.start_ticks, r.attribution,
         CASE WHEN r.state IN ('closed', 'failed') THEN r.state ELSE 'open' END AS state,
         ${plausibleTime("r.first_seen", "r.stored_at")} AS began, least(${plausibleTime("r.last_seen", "r.stored_at")}, r.stored_at) AS last_seen,
         greatest(${counter("r.connections")}, 1) AS connections, ${counter("r.bytes_sent")} AS bytes_sent, ${counter("r.bytes_received")} AS bytes_received,
         ${counter("r.rtt_us")} AS rtt_us, ${counter("r.retransmits")} AS retransmits, ${reasons.map((name) => `${counter(`r.${name}`)} AS ${name}`).join(", ")},
         r.stored_at, r."time", ${rowOrder} AS ord
       FROM raw.connection r JOIN internal.sources s USING (source)
       WHERE ${range.where("r")} AND r.role IN ('client', 'server', 'peer')
         AND r.client_port BETWEEN 0 AND 65535 AND r.server_port BETWEEN 0 AND 65535
     ), oriented AS (
       SELECT agent_id, netns, CASE WHEN turned OR role = 'server' THEN 'server' ELSE 'client' END AS role, protocol,
         CASE WHEN turned THEN sa ELSE ca END AS client_address, CASE WHEN turned THEN sp ELSE cp END AS client_port,
         CASE WHEN turned THEN ca ELSE sa END AS server_address, CASE WHEN turned THEN cp ELSE sp END AS server_port,
         -- A row that folds many open connections is a snapshot; the next one replaces it.
         CASE WHEN cp = 0 AND state = 'open' THEN make_timestamp(0) ELSE first_seen END AS first_seen,
         service, pid, start_ticks, attribution, state, least(began, last_seen) AS began, last_seen, connections, bytes_sent,
         bytes_received, rtt_us, retransmits, ${reasons.join(", ")}, stored_at, "time", ord
       FROM reported
     )
     SELECT *, ${keyOf(tuple)} AS end_key, ${keyOf(["protocol", "client_address", "client_port"])} AS caller_key,
       first_value(bytes_sent) OVER reports AS first_sent, first_value(bytes_received) OVER reports AS first_received, first_value(retransmits) OVER reports AS first_retransmits
     FROM oriented WINDOW reports AS (PARTITION BY end_key, first_seen ORDER BY ord)
     QUALIFY row_number() OVER (PARTITION BY end_key, first_seen ORDER BY ord DESC) = 1`,
  );
  const [row] = await transaction.query("SELECT count(*) AS rows FROM fresh_side");
  return Number(row?.["rows"] ?? 0);
}

async function noteAgents(transaction: Transaction): Promise<void> {
  await transaction.run(
    `UPDATE net.agent_scans a SET heard_at = greatest(a.heard_at, f.heard_at)
     FROM (SELECT agent_id, max(stored_at) AS heard_at FROM fresh_side GROUP BY agent_id) f WHERE a.agent_id = f.agent_id`,
  );
  await transaction.run(
    `INSERT INTO net.agent_scans (agent_id, first_scan, scans, last_ingest, prev_ingest, heard_at)
     SELECT agent_id, min(${plausibleTime('"time"', "stored_at")}), 0, 0, 0, max(stored_at) FROM fresh_side
     WHERE agent_id NOT IN (SELECT agent_id FROM net.agent_scans) GROUP BY agent_id`,
  );
}

/**
 * What each row adds. A restarted agent no longer knows when it first saw a connection. An open end that reappears with the same addresses
 * and ports is the same connection if its counters continued, otherwise a new one. Connections that existed at an agent's first scan were
 * not opened then, and their bytes so far are from unobserved time.
 */
async function findChanges(transaction: Transaction): Promise<void> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE side_match AS
     SELECT f.end_key, f.first_seen, f.client_port <> 0 AS is_single, f.state, o.id AS old_id, o.state AS old_state, f.connections, o.connections AS old_connections,
       coalesce(f.bytes_sent, o.bytes_sent) AS sent, coalesce(f.bytes_received, o.bytes_received) AS received, coalesce(f.retransmits, o.retransmits) AS retransmits,
       o.bytes_sent AS old_sent, o.bytes_received AS old_received, o.retransmits AS old_retransmits, coalesce(o.began, f.began) AS began
     FROM fresh_side f LEFT JOIN net.connection_sides o ON o.end_key = f.end_key AND o.first_seen = f.first_seen AND o.agent_id = f.agent_id`,
  );
  // Successive ends with the same addresses and ports. They are few, because most connections have a unique port.
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE side_chain AS
     WITH link AS (
       SELECT end_key, first_seen, state, sent, received, retransmits, began, NULL::UBIGINT AS stored_id FROM side_match WHERE is_single
       UNION ALL
       SELECT o.end_key, o.first_seen, o.state, o.bytes_sent, o.bytes_received, o.retransmits, o.began, o.id
       FROM net.connection_sides o SEMI JOIN (SELECT end_key FROM side_match WHERE old_id IS NULL AND is_single) n ON n.end_key = o.end_key
       ANTI JOIN side_match m ON m.end_key = o.end_key AND m.first_seen = o.first_seen
       WHERE o.state = 'open'
     )
     SELECT *, lag(state) OVER w AS prev_state, lag(sent) OVER w AS prev_sent, lag(received) OVER w AS prev_received, lag(retransmits) OVER w AS prev_retransmits,
       lag(began) OVER w AS prev_began, lead(state) OVER w IS NOT NULL AS has_next, lead(sent) OVER w AS next_sent, lead(received) OVER w AS next_received
     FROM link SEMI JOIN (SELECT end_key FROM link GROUP BY end_key HAVING count(*) > 1) several USING (end_key)
     WINDOW w AS (PARTITION BY end_key ORDER BY stored_id IS NULL, first_seen)`,
  );
  // Creates only the columns added here: each column of a temporary table takes half a megabyte, however few rows it has.
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE side_change AS
     WITH judged AS (
       SELECT m.*, ${reasons.map((name) => `f.${name}`).join(", ")}, m.state = 'failed' AND coalesce(m.old_state = 'failed', true) AS is_attempt, f.caller_key, f.began AS said_began, f.rtt_us, f.retransmits AS said_retransmits, f.first_sent, f.first_received, f.first_retransmits, a.second_scan,
         c.prev_sent, c.prev_received, c.prev_retransmits, c.prev_began,
         coalesce(m.old_id IS NULL AND c.prev_state = 'open' AND ${isContinued("m.sent", "c.prev_sent", "m.received", "c.prev_received")}, false) AS goes_on,
         coalesce(m.state = 'open' AND c.has_next, false) AS is_replaced, coalesce(${isContinued("c.next_sent", "m.sent", "c.next_received", "m.received")}, false) AS next_goes_on,
         m.old_id IS NULL AND f.began <= a.first_scan AS unwatched
       FROM fresh_side f JOIN side_match m ON m.end_key = f.end_key AND m.first_seen = f.first_seen JOIN net.agent_scans a ON a.agent_id = f.agent_id
       LEFT JOIN side_chain c ON c.end_key = f.end_key AND c.first_seen = f.first_seen AND c.stored_id IS NULL
     )
     SELECT end_key, first_seen, caller_key, old_id, sent, received, retransmits, CASE WHEN is_replaced THEN 'replaced' ELSE state END AS state,
       CASE WHEN goes_on THEN prev_began ELSE said_began END AS began, said_began <= coalesce(second_scan, said_began) AS learning,
       CASE WHEN is_attempt OR goes_on OR unwatched THEN 0 WHEN old_id IS NULL THEN connections ELSE greatest(connections - old_connections, 0) END AS d_opened,
       CASE WHEN is_attempt THEN 0 WHEN state = 'open' AND old_state = 'vanished' THEN -old_connections WHEN is_replaced AND next_goes_on THEN 0
         WHEN state = 'open' AND NOT is_replaced THEN greatest(coalesce(old_connections, 0) - connections, 0)
         WHEN old_id IS NULL OR old_state = 'open' THEN connections ELSE greatest(connections - old_connections, 0) END AS d_closed,
       greatest(coalesce(sent, 0) - coalesce(CASE WHEN goes_on THEN prev_sent WHEN unwatched THEN first_sent ELSE old_sent END, 0), 0) AS d_out,
       greatest(coalesce(received, 0) - coalesce(CASE WHEN goes_on THEN prev_received WHEN unwatched THEN first_received ELSE old_received END, 0), 0) AS d_in,
       CASE WHEN said_retransmits IS NULL THEN NULL ELSE greatest(said_retransmits
         - coalesce(CASE WHEN goes_on THEN prev_retransmits WHEN unwatched THEN first_retransmits ELSE old_retransmits END, 0), 0) END AS d_retransmits,
       -- A failed attempt is not a connection; a connection that was cut is one.
       CASE WHEN is_attempt THEN greatest(connections - coalesce(old_connections, 0), 0)
         WHEN ${endsNow} THEN least(coalesce(reset, 0) + coalesce(timed_out, 0) + coalesce(refused, 0), connections) ELSE 0 END AS d_failures,
       ${reasons.map((name) => `CASE WHEN ${endsNow} THEN coalesce(${name}, 0) ELSE 0 END AS d_${name}`).join(", ")}
     FROM judged`,
  );
  await transaction.run(dropTables("side_match"));
}

/** Only the row that ends a connection has a reason. */
const endsNow = "state <> 'open' AND coalesce(old_state = 'open', true)";

/** True if the counters did not fall: counters of one connection only rise. */
const isContinued = (sent: string, before: string, received: string, receivedBefore: string): string =>
  `(coalesce(${sent}, 0) >= coalesce(${before}, 0) AND coalesce(${received}, 0) >= coalesce(${receivedBefore}, 0))`;

async function storeChanges(transaction: Transaction): Promise<void> {
  const changed = "side_change c JOIN fresh_side f ON f.end_key = c.end_key AND f.first_seen = c.first_seen";
  await transaction.run(
    `UPDATE net.connection_sides s SET state = c.state, last_seen = greatest(s.last_seen, f.last_seen), connections = f.connections,
       bytes_sent = c.sent, bytes_received = c.received, rtt_us = coalesce(f.rtt_us, s.rtt_us), retransmits = c.retransmits, updated_at = f.stored_at,
       pend_opened = s.pend_opened + c.d_opened, pend_closed = s.pend_closed + c.d_closed, pend_out = s.pend_out + c.d_out, pend_in = s.pend_in + c.d_in,
       pend_rtt_sum = s.pend_rtt_sum + coalesce(f.rtt_us, 0), pend_rtt_count = s.pend_rtt_count + (f.rtt_us IS NOT NULL)::BIGINT,
       pend_retransmits = CASE WHEN c.d_retransmits IS NULL THEN s.pend_retransmits ELSE coalesce(s.pend_retransmits, 0) + c.d_retransmits END,
       ${failures.map((name) => `pend_${name} = s.pend_${name} + c.d_${name}`).join(", ")}
     FROM ${changed} WHERE s.id = c.old_id`,
  );
  // The owner of an end rarely changes: a worker inherited the socket, or a better name was found.
  await transaction.run(
    `UPDATE net.connection_sides s SET view_id = 0, service = CASE WHEN f.service = '' THEN s.service ELSE f.service END, pid = coalesce(f.pid, s.pid),
       start_ticks = coalesce(f.start_ticks, s.start_ticks), attribution = coalesce(f.attribution, s.attribution)
     FROM ${changed} WHERE s.id = c.old_id AND ((f.service <> '' AND f.service <> s.service) OR f.pid <> s.pid OR (f.pid IS NOT NULL AND s.pid IS NULL))`,
  );
  await transaction.run(
    `UPDATE net.connection_sides s SET state = 'replaced',
       pend_closed = s.pend_closed + CASE WHEN ${isContinued("c.next_sent", "c.sent", "c.next_received", "c.received")} THEN 0 ELSE s.connections END
     FROM side_chain c WHERE s.id = c.stored_id AND c.has_next`,
  );
  await transaction.run(
    `INSERT INTO net.connection_sides (id, end_key, caller_key, view_id, ${identity.join(", ")}, service, pid, start_ticks, attribution, build, state, began, last_seen,
       connections, bytes_sent, bytes_received, rtt_us, retransmits, arrived_at, updated_at, is_local, learning, pairing, peer_id, peer_agent,
       peer_service, edge_port, pend_opened, pend_closed, pend_out, pend_in, pend_retransmits, pend_rtt_sum, pend_rtt_count, ${failures.map((name) => `pend_${name}`).join(", ")})
     SELECT nextval('net.side_ids'), c.end_key, c.caller_key, 0, ${identity.map((name) => `f.${name}`).join(", ")}, f.service, f.pid, f.start_ticks, f.attribution,
       coalesce(i.build, b.build), c.state, c.began, f.last_seen, f.connections, c.sent, c.received, f.rtt_us, c.retransmits, f.stored_at, f.stored_at,
       ${isLocalAddress("f.client_address")} OR ${isLocalAddress("f.server_address")}, c.learning, '', NULL, '', '', f.server_port,
       c.d_opened, c.d_closed, c.d_out, c.d_in, c.d_retransmits, coalesce(f.rtt_us, 0), (f.rtt_us IS NOT NULL)::BIGINT,
       ${failures.map((name) => `c.d_${name}`).join(", ")}
     FROM ${changed} LEFT JOIN (
       SELECT agent_id, pid, start_ticks, any_value(build) AS build FROM net.service_instances WHERE pid > 0 GROUP BY agent_id, pid, start_ticks
     ) i ON i.agent_id = f.agent_id AND i.pid = f.pid AND i.start_ticks = f.start_ticks
     LEFT JOIN (
       SELECT agent_id, service, any_value(build) AS build FROM net.service_instances GROUP BY agent_id, service HAVING min(build) = max(build)
     ) b ON b.agent_id = f.agent_id AND b.service = f.service
     WHERE c.old_id IS NULL`,
  );
}

/** Addresses where services were seen serving and calling, including those that no instance lists. Rewritten at most every few minutes. */
async function updateAddresses(transaction: Transaction): Promise<void> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE seen_address AS
     SELECT agent_id, netns, CASE WHEN role = 'server' THEN server_address ELSE client_address END AS address,
       CASE WHEN role = 'server' THEN server_port ELSE 0 END AS port, CASE WHEN role = 'server' THEN protocol ELSE '' END AS protocol, service,
       max(stored_at) AS updated_at
     FROM fresh_side WHERE service <> '' GROUP BY ALL`,
  );
  const sameAddress = same(["agent_id", "netns", "address", "port", "protocol", "service"], "a", "s");
  await transaction.run(
    `UPDATE net.service_addresses a SET updated_at = s.updated_at FROM seen_address s
     WHERE a.learned_from = 'traffic' AND ${sameAddress} AND s.updated_at > a.updated_at + INTERVAL 10 MINUTE`,
  );
  await transaction.run(
    `INSERT INTO net.service_addresses (agent_id, netns, address, port, protocol, service, learned_from, updated_at)
     SELECT s.agent_id, s.netns, s.address, s.port, s.protocol, s.service, 'traffic', s.updated_at FROM seen_address s
     ANTI JOIN net.service_addresses a ON ${sameAddress}`,
  );
  await transaction.run(dropTables("seen_address"));
}

/** Ends whose close was not reported: their agent still reports other ends, or has been silent for too long to report this one. */
export async function endLostSides(transaction: Transaction, nowUs: number): Promise<void> {
  await transaction.run(
    `UPDATE net.connection_sides s SET state = 'vanished', pend_closed = pend_closed + connections FROM net.agent_scans a
     WHERE s.agent_id = a.agent_id AND s.state = 'open'
       AND (s.updated_at < a.heard_at - INTERVAL ${lostSightAfterMs} MILLISECOND OR s.updated_at < make_timestamp(${nowUs - silentSidesMaxAgeMs * 1_000}))`,
  );
}
