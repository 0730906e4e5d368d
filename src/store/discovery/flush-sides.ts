/** Adds the amounts of ends to the totals once their peer is known, and maintains the list of external endpoints. */

import type { Transaction } from "../engine/database.ts";
import { classifySql, viewKey } from "./classify-edges.ts";
import {
  announcedEndpointsMax,
  bucketMinutes,
  failures,
  maxEndpointsPerService,
  maxSides,
  settleAfterMs,
  settleMarginMs,
} from "./discovery-settings.ts";
import { dropTables, keyOf, labelOf, sumOf } from "./sql-parts.ts";

/** Flushes at most `limit` ends; the next call continues. */
export async function flushSides(
  transaction: Transaction,
  database: string,
  nowUs: number,
  limit: number,
): Promise<{ flushed: number; waiting: number }> {
  await markDue(transaction, nowUs, limit);
  const [row] = await transaction.query(
    `SELECT (SELECT count(*) FROM due_side) AS sides, (SELECT count(*) FROM net.connection_sides WHERE ${hasAmounts}) AS unflushed`,
  );
  const sides = Number(row?.["sides"] ?? 0);
  if (sides > 0) {
    await gather(transaction, database);
    await keepEndpoints(transaction, nowUs);
    await announceEndpoints(transaction, nowUs);
    await addTotals(transaction);
    await transaction.run(dropTables("flushed", "flushed_class", "folded", "used", "used_endpoint", "service_endpoint_before"));
    await transaction.run(
      `UPDATE net.connection_sides SET pend_opened = 0, pend_closed = 0, pend_out = 0, pend_in = 0, pend_retransmits = NULL, pend_rtt_sum = 0,
         pend_rtt_count = 0, ${failures.map((name) => `pend_${name} = 0`).join(", ")} WHERE id IN (SELECT id FROM due_side)`,
    );
  }
  // A closed end is done once its amounts are flushed and its peer had time to appear.
  await transaction.run(
    `DELETE FROM net.connection_sides WHERE state <> 'open' AND pend_opened = 0 AND pend_closed = 0 AND pend_out = 0 AND pend_in = 0
       AND pend_rtt_count = 0 AND pend_failures = 0 AND (pairing <> '' OR updated_at < make_timestamp(${nowUs - settleAfterMs * 1_000}) OR (SELECT count(*) FROM net.connection_sides) > ${maxSides})`,
  );
  return { flushed: sides, waiting: Number(row?.["unflushed"] ?? 0) - sides };
}

const hasAmounts = "(pend_opened <> 0 OR pend_closed <> 0 OR pend_out > 0 OR pend_in > 0 OR pend_rtt_count > 0 OR pend_failures > 0)";

/**
 * An end is settled when both ends are known, when every reachable agent has scanned again since, or after a timeout. An end with an
 * unknown owner waits too: the next scan may name it, and amounts flushed before would keep no owner.
 */
async function markDue(transaction: Transaction, nowUs: number, limit: number): Promise<void> {
  const settledUs = nowUs - settleAfterMs * 1_000;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE due_side AS
     SELECT id FROM net.connection_sides s WHERE ${hasAmounts}
       AND ((s.pairing <> '' AND s.service <> '' AND s.peer_service <> '') OR s.arrived_at <= make_timestamp(${settledUs})
         OR s.arrived_at <= (SELECT min(scanned_at) - INTERVAL ${settleMarginMs} MILLISECOND FROM net.agent_scans WHERE heard_at > make_timestamp(${settledUs}))
         OR (SELECT count(*) FROM net.connection_sides) > ${maxSides})
     LIMIT ${limit}`,
  );
}

/** Amounts by view and bucket, with the interpretation of each view. */
async function gather(transaction: Transaction, database: string): Promise<void> {
  const bucketOf = (time: string): string => `time_bucket(INTERVAL ${bucketMinutes} MINUTE, ${time})`;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE flushed AS
     WITH side AS (SELECT s.* FROM net.connection_sides s SEMI JOIN due_side USING (id)),
     amount AS (
       -- Opened counts at the start of the connection, the rest at its last report.
       SELECT view_id, ${bucketOf("began")} AS bucket, pend_opened AS opened, 0 AS closed, 0 AS bytes_out, 0 AS bytes_in, NULL AS retransmits,
         0 AS rtt_sum, 0 AS rtt_count, ${failures.map((name) => `0 AS ${name}`).join(", ")}, began, began AS last_seen, build, learning FROM side WHERE pend_opened <> 0
       UNION ALL
       SELECT view_id, ${bucketOf("last_seen")}, 0, pend_closed, pend_out, pend_in, pend_retransmits, pend_rtt_sum, pend_rtt_count,
         ${failures.map((name) => `pend_${name}`).join(", ")}, began, last_seen, build, learning FROM side
     )
     SELECT view_id, bucket, ${["opened", "closed", "bytes_out", "bytes_in", "rtt_sum", "rtt_count", ...failures].map((name) => `${sumOf(name)} AS ${name}`).join(", ")},
       CASE WHEN count(retransmits) > 0 THEN ${sumOf("retransmits")} END AS retransmits, min(began) AS first_seen, max(last_seen) AS last_seen,
       arg_min(build, began) AS build, bool_and(learning) AS learning
     FROM amount GROUP BY view_id, bucket`,
  );
  const views = `SELECT v.*, f.opened, f.first_seen, f.last_seen, f.build, f.learning FROM flushed f JOIN net.edge_views v USING (view_id)`;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE flushed_class AS SELECT * FROM (${classifySql(database, views)}) WHERE peer_kind = 'external'`,
  );
}

/** External endpoints, and which service of which agent uses them. An ingress caller's port has no meaning and is stored as 0. */
async function keepEndpoints(transaction: Transaction, nowUs: number): Promise<void> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE used AS
     WITH use AS (
       SELECT service, agent_id, CASE WHEN class = 'INGRESS' THEN server_port ELSE 0 END AS service_port, lower(class) AS endpoint_type,
         peer_address AS address, CASE WHEN class = 'INGRESS' THEN 0 ELSE server_port END AS port, protocol, ${sumOf("opened")} AS opened,
         min(first_seen) AS first_seen, max(last_seen) AS last_seen, arg_min(build, first_seen) AS build, bool_and(learning) AS learning
       FROM flushed_class GROUP BY 1, 2, 3, 4, 5, 6, 7
     ), known AS (
       SELECT e.service, e.endpoint_type, n.ip_address AS address FROM net.service_endpoints e JOIN net.network_endpoints n ON n.id = e.endpoint_id
       GROUP BY ALL
     ), counted AS (SELECT service, endpoint_type, count(*) AS addresses FROM known GROUP BY ALL),
     ranked AS (
       SELECT use.*, known.address IS NOT NULL AS is_known, coalesce(counted.addresses, 0) AS known_addresses,
         dense_rank() OVER (PARTITION BY use.service, use.endpoint_type, known.address IS NULL ORDER BY use.first_seen, use.address) AS nth
       FROM use LEFT JOIN known USING (service, endpoint_type, address) LEFT JOIN counted USING (service, endpoint_type)
     )
     SELECT * REPLACE (CASE WHEN is_known OR known_addresses + nth <= ${maxEndpointsPerService} THEN address ELSE '*' END AS address), address AS said_address
     FROM ranked`,
  );
  await transaction.run(
    `INSERT INTO net.network_endpoints (id, ip_address, port, protocol, endpoint_type, first_seen, last_seen)
     SELECT nextval('net.endpoint_ids'), address, port, protocol, endpoint_type, first_seen, last_seen FROM (
       SELECT address, port, protocol, endpoint_type, min(first_seen) AS first_seen, max(last_seen) AS last_seen FROM used GROUP BY ALL)
     ON CONFLICT (ip_address, port, protocol, endpoint_type) DO UPDATE SET last_seen = greatest(last_seen, excluded.last_seen)`,
  );
  // Announce before storing: afterwards nothing would be new.
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE used_endpoint AS
     SELECT u.service, u.agent_id, n.id AS endpoint_id, u.service_port, u.endpoint_type, ${sumOf("u.opened")} AS opened, min(u.first_seen) AS first_seen,
       max(u.last_seen) AS last_seen, arg_min(u.build, u.first_seen) AS build, bool_and(u.learning) AS learning, any_value(n.ip_address) AS address,
       any_value(n.port) AS port, any_value(u.known_addresses) AS known_addresses, bool_or(u.is_known) AS is_known
     FROM used u JOIN net.network_endpoints n ON n.ip_address = u.address AND n.port = u.port AND n.protocol = u.protocol AND n.endpoint_type = u.endpoint_type
     GROUP BY u.service, u.agent_id, n.id, u.service_port, u.endpoint_type`,
  );
  await transaction.run(
    "CREATE OR REPLACE TEMP TABLE service_endpoint_before AS SELECT DISTINCT service, endpoint_type, endpoint_id FROM net.service_endpoints",
  );
  await transaction.run(
    `INSERT INTO net.service_endpoints (service, agent_id, endpoint_id, service_port, endpoint_type, connection_count, first_seen, last_seen, updated_at, first_build)
     SELECT service, agent_id, endpoint_id, service_port, endpoint_type, opened, first_seen, last_seen, make_timestamp(${nowUs}), build FROM used_endpoint
     ON CONFLICT (service, agent_id, endpoint_id, service_port) DO UPDATE SET connection_count = connection_count + excluded.connection_count,
       last_seen = greatest(last_seen, excluded.last_seen), updated_at = excluded.updated_at`,
  );
}

/**
 * Events for services that call, or are called by, an external endpoint for the first time. One event per name: a product behind many
 * addresses is one dependency. Endpoints from an agent's first two scans are not new, and neither is one more caller of a public service.
 */
async function announceEndpoints(transaction: Transaction, nowUs: number): Promise<void> {
  const serviceLabel = labelOf("news.service");
  const label = "coalesce(r.provider || ' ' || r.product, r.resolved_name, x.address)";
  await transaction.run(
    `INSERT INTO registry.events
     WITH known AS (
       SELECT DISTINCT e.service, e.endpoint_type, ${label} AS label FROM service_endpoint_before e
       JOIN (SELECT id, ip_address AS address FROM net.network_endpoints) x ON x.id = e.endpoint_id
       LEFT JOIN net.endpoint_resolution r ON r.ip_address = x.address
     ), fresh AS (
       SELECT x.service, x.endpoint_type, ${label} AS label, min(x.agent_id) AS agent_id, min(x.address) AS address, min(x.port) AS port,
         min(x.service_port) AS service_port, arg_min(x.build, x.first_seen) AS build, bool_and(x.learning) AS learning,
         max(x.known_addresses) AS known_addresses
       FROM used_endpoint x LEFT JOIN net.endpoint_resolution r ON r.ip_address = x.address WHERE x.address <> '*' GROUP BY ALL
     ), news AS (
       SELECT f.*, row_number() OVER (PARTITION BY f.service, f.endpoint_type ORDER BY f.label) AS nth, count(*) OVER (PARTITION BY f.service, f.endpoint_type) AS count
       FROM fresh f ANTI JOIN known k ON k.service = f.service AND k.endpoint_type = f.endpoint_type AND k.label = f.label
       WHERE NOT f.learning AND f.service NOT IN ('coral', 'program:coral') AND f.known_addresses < ${announcedEndpointsMax}
     )
     SELECT make_timestamp(${nowUs}), endpoint_type || '-new', agent_id,
       CASE WHEN endpoint_type = 'egress' THEN 'Service ' || ${serviceLabel} || ' calls ' || label || ' (' || address || ':' || port || ') for the first time'
         ELSE 'Service ' || ${serviceLabel} || ' is called by ' || label || CASE WHEN label = address THEN '' ELSE ' (' || address || ')' END || ' on port ' || service_port || ' for the first time' END
         || CASE WHEN build IS NULL THEN '' ELSE ', with build ' || left(build, 12) END,
       json_object('service', service, 'name', label, 'address', address, 'port', CASE WHEN endpoint_type = 'egress' THEN port ELSE service_port END, 'build', build)
     FROM news WHERE nth <= 20
     UNION ALL
     SELECT make_timestamp(${nowUs}), endpoint_type || '-new', min(agent_id), 'Service ' || ${serviceLabel} || ' has ' || (max(count) - 20) || ' more new ' || endpoint_type || ' endpoints',
       json_object('service', service, 'count', max(count) - 20) FROM news WHERE nth > 20 GROUP BY service, endpoint_type`,
  );
}

/** Addresses beyond a service's limit are counted together. */
async function addTotals(transaction: Transaction): Promise<void> {
  const folded = viewKey.map((name) => (name === "peer_address" ? "'*'" : `c.${name}`));
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE folded AS
     SELECT c.view_id AS said_id, ${keyOf(folded)} AS view_id, ${viewKey.map((name, at) => `${folded[at]} AS ${name}`).join(", ")}
     FROM (SELECT DISTINCT view_id, ${viewKey.join(", ")}, class FROM flushed_class) c
     SEMI JOIN (SELECT * FROM used WHERE address = '*' AND said_address <> '*') u
       ON u.service = c.service AND u.endpoint_type = lower(c.class) AND u.said_address = c.peer_address`,
  );
  await transaction.run(
    `INSERT INTO net.edge_views (view_id, ${viewKey.join(", ")}) SELECT view_id, ${viewKey.map((name) => `any_value(${name})`).join(", ")} FROM folded
     ANTI JOIN net.edge_views v USING (view_id) GROUP BY view_id`,
  );
  await transaction.run(
    `INSERT INTO net.edge_totals (bucket, view_id, opened, closed, bytes_out, bytes_in, retransmits, rtt_sum, rtt_count, first_seen, last_seen, ${failures.join(", ")})
     SELECT f.bucket, coalesce(folded.view_id, f.view_id), f.opened, f.closed, f.bytes_out, f.bytes_in, f.retransmits, f.rtt_sum, f.rtt_count, f.first_seen,
       f.last_seen, ${failures.map((name) => `f.${name}`).join(", ")} FROM flushed f LEFT JOIN folded ON folded.said_id = f.view_id`,
  );
}
