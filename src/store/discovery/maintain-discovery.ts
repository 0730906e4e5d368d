/** Periodic maintenance of discovered data: promotion, staleness, retention, coarser totals. */

import type { Transaction } from "../engine/database.ts";
import { edgeTotals, noteKept } from "../tables/coverage-ledger.ts";
import { type DiscoverySettings, failures } from "./discovery-settings.ts";
import { isLocalAddress, labelOf, sumOf } from "./sql-parts.ts";

/** Limit on events of one kind per run; those beyond it are merged into one. */
const eventsMax = 20;

/** Cheap; runs about every minute. */
export async function ageServices(transaction: Transaction, settings: DiscoverySettings, nowUs: number): Promise<void> {
  await promoteServices(transaction, settings, nowUs);
  await markStale(transaction, settings, nowUs);
  await forgetKnownEndpoints(transaction);
  // An address stays known while it has traffic.
  await transaction.run(
    `DELETE FROM net.service_addresses WHERE learned_from = 'traffic' AND updated_at < make_timestamp(${nowUs}) - INTERVAL 1 HOUR`,
  );
}

async function promoteServices(transaction: Transaction, { autoPromotion }: DiscoverySettings, nowUs: number): Promise<void> {
  if (!autoPromotion.enabled) return;
  const due = `status = 'discovered' AND NOT managed AND present AND confidence >= ${autoPromotion.minConfidence}
    AND known_since <= make_timestamp(${Math.floor(nowUs - autoPromotion.minObservationTimeMs * 1_000)})`;
  await transaction.run(
    `INSERT INTO registry.events
     SELECT make_timestamp(${nowUs}), 'service-promoted', min(agent_id), 'Service ' || ${labelOf("r.service")} || ' is managed now, by rule; it was discovered via ' || any_value(method) || '; coral connect has its health checked too',
       json_object('service', service, 'previousMethod', any_value(method), 'confidence', max(confidence), 'by', 'rule')
     FROM net.service_registry r WHERE ${due} GROUP BY r.service`,
  );
  await transaction.run(`UPDATE net.service_registry SET status = 'managed', promoted = true, previous_method = method WHERE ${due}`);
}

/** Services of a silent agent become stale too. */
async function markStale(transaction: Transaction, settings: DiscoverySettings, nowUs: number): Promise<void> {
  const cutoff = `make_timestamp(${Math.floor(nowUs - settings.stalenessThresholdMs * 1_000)})`;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE gone_stale AS
     SELECT r.service, r.agent_id, r.protocol, r.port FROM net.service_registry r LEFT JOIN net.agent_scans a USING (agent_id)
     WHERE r.status <> 'stale' AND CASE WHEN r.present THEN coalesce(a.scanned_at, a.heard_at, r.known_since) ELSE r.gone_since END < ${cutoff}`,
  );
  await transaction.run(
    `INSERT INTO registry.events
     WITH stale AS (
       SELECT g.service, min(g.agent_id) AS agent_id, list_sort(list(DISTINCT g.agent_id))[:20] AS agents, row_number() OVER (ORDER BY g.service) AS nth, count(*) OVER () AS count
       FROM gone_stale g GROUP BY g.service
     )
     SELECT make_timestamp(${nowUs}), 'service-stale', agent_id, 'Service ' || ${labelOf("stale.service")} || ' was not seen for ' || $age, json_object('service', service, 'agents', agents)
     FROM stale WHERE nth <= ${eventsMax}
     UNION ALL
     SELECT make_timestamp(${nowUs}), 'service-stale', NULL, (any_value(count) - ${eventsMax}) || ' more services were not seen for ' || $age,
       json_object('services', list_sort(list(service))[:200]) FROM stale WHERE nth > ${eventsMax} HAVING count(*) > 0`,
    { age: ageText(settings.stalenessThresholdMs) },
  );
  await transaction.run(
    `UPDATE net.service_registry r SET status = 'stale', last_seen = CASE WHEN r.present THEN coalesce(a.last_scan, r.last_seen) ELSE r.last_seen END,
       gone_since = CASE WHEN r.present THEN coalesce(a.scanned_at, r.known_since) ELSE r.gone_since END, present = false
     FROM gone_stale g LEFT JOIN net.agent_scans a USING (agent_id)
     WHERE r.service = g.service AND r.agent_id = g.agent_id AND r.protocol = g.protocol AND r.port = g.port`,
  );
}

/** Endpoints that were external until their agent joined. */
async function forgetKnownEndpoints(transaction: Transaction): Promise<void> {
  await transaction.run(
    `DELETE FROM net.service_endpoints WHERE endpoint_id IN (
       SELECT n.id FROM net.network_endpoints n JOIN net.service_addresses a ON a.address = n.ip_address
         AND (n.endpoint_type = 'ingress' OR (a.port = n.port AND a.protocol = n.protocol))
       WHERE NOT ${isLocalAddress("n.ip_address")})`,
  );
}

/** Expensive; runs about every ten minutes. */
export async function retainDiscovery(transaction: Transaction, settings: DiscoverySettings, nowUs: number): Promise<void> {
  const cutoff = `make_timestamp(${Math.floor(nowUs - settings.retentionMs * 1_000)})`;
  await transaction.run(`DELETE FROM net.service_registry WHERE status = 'stale' AND gone_since < ${cutoff}`);
  await transaction.run(
    `DELETE FROM net.service_instances WHERE agent_id IN (SELECT agent_id FROM net.agent_scans WHERE heard_at < ${cutoff})`,
  );
  await transaction.run(
    `DELETE FROM net.service_addresses WHERE agent_id IN (SELECT agent_id FROM net.agent_scans WHERE heard_at < ${cutoff})`,
  );
  await transaction.run("DELETE FROM net.services WHERE service NOT IN (SELECT service FROM net.service_registry)");
  await transaction.run(`DELETE FROM net.agent_scans WHERE heard_at < ${cutoff}`);
  await transaction.run(`DELETE FROM net.service_endpoints WHERE updated_at < ${cutoff}`);
  await transaction.run("DELETE FROM net.network_endpoints WHERE id NOT IN (SELECT endpoint_id FROM net.service_endpoints)");
  await transaction.run(
    `DELETE FROM net.endpoint_resolution WHERE expires_at < make_timestamp(${nowUs}) AND ip_address NOT IN (SELECT ip_address FROM net.network_endpoints)`,
  );
  const removed = await transaction.run(`DELETE FROM net.edge_totals WHERE bucket < ${cutoff}`);
  if (removed > 0) await noteKept(transaction, edgeTotals, nowUs - settings.retentionMs * 1_000);
  await transaction.run(
    `DELETE FROM net.edge_views WHERE view_id NOT IN (SELECT view_id FROM net.edge_totals) AND view_id NOT IN (SELECT view_id FROM net.connection_sides)`,
  );
  for (const { interval, afterHours } of coarser) await mergeTotals(transaction, interval, afterHours, nowUs);
}

/** Five minutes for the last hours, then hours, then days. Queries that start earlier are aligned to these buckets. */
export const coarser = [
  { interval: "5 MINUTE", afterHours: 0 },
  { interval: "1 HOUR", afterHours: 3 },
  { interval: "1 DAY", afterHours: 72 },
] as const;

/**
 * Merges partials of one key and interval into one row. Each interval is merged once, when it is complete. Late rows stay separate until
 * the next coarser merge.
 */
async function mergeTotals(transaction: Transaction, interval: string, afterHours: number, nowUs: number): Promise<void> {
  const until = `time_bucket(INTERVAL ${interval}, make_timestamp(${nowUs}) - INTERVAL ${Math.max(afterHours * 60, 15)} MINUTE)`;
  const [row] = await transaction.query(
    `SELECT coalesce(epoch_us((SELECT until FROM net.merge_progress WHERE name = '${interval}')), 0) AS since, epoch_us(${until}) AS until`,
  );
  const [sinceUs, untilUs] = [Number(row?.["since"] ?? 0), Number(row?.["until"] ?? 0)];
  if (untilUs <= sinceUs) return;
  const range = `bucket >= make_timestamp(${sinceUs}) AND bucket < make_timestamp(${untilUs})`;
  const columns = `bucket, view_id, opened, closed, bytes_out, bytes_in, retransmits, rtt_sum, rtt_count, first_seen, last_seen, ${failures.join(", ")}`;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE merged AS
     SELECT time_bucket(INTERVAL ${interval}, bucket) AS bucket, view_id, ${["opened", "closed", "bytes_out", "bytes_in", ...failures].map((name) => `${sumOf(name)} AS ${name}`).join(", ")},
       CASE WHEN count(retransmits) > 0 THEN ${sumOf("retransmits")} END AS retransmits, ${sumOf("rtt_sum")} AS rtt_sum, ${sumOf("rtt_count")} AS rtt_count,
       min(first_seen) AS first_seen, max(last_seen) AS last_seen
     FROM net.edge_totals WHERE ${range} GROUP BY ALL`,
  );
  await transaction.run(`DELETE FROM net.edge_totals WHERE ${range}`);
  await transaction.run(`INSERT INTO net.edge_totals (${columns}) SELECT ${columns} FROM merged`);
  await transaction.run(`INSERT OR REPLACE INTO net.merge_progress VALUES ('${interval}', make_timestamp(${untilUs}))`);
}

function ageText(durationMs: number): string {
  const minutes = Math.round(durationMs / 60_000);
  if (minutes < 1) return `${Math.round(durationMs / 1_000)} s`;
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${minutes} min`;
}
