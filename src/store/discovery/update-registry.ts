/** The service registry: which service runs on which agent and port, since when, with what confidence, and who manages it. */

import type { Transaction } from "../engine/database.ts";
import { dropTables, labelOf, plausibleTime } from "./sql-parts.ts";

/** Columns taken from the newest instance. */
const facts = ["named_by", "confidence", "pid", "start_ticks", "exe", "build", "build_kind", "command_line", "health", "health_detail"];

/** A connected service without a listener: its agent reports a row without process and address. */
const isAbsent = "(managed AND pid = 0 AND address = '')";

/** Call after consumeInstances(): reads its temporary tables. `nowUs` is the colony's time. */
export async function updateRegistry(transaction: Transaction, nowUs: number): Promise<void> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE registry_now AS
     WITH best AS (
       SELECT service, agent_id, protocol, port, bool_or(managed) AS managed,
         arg_max(method, (managed::INT * 10 + confidence)) AS method,
         CASE WHEN bool_or(is_latest) THEN count(DISTINCT (pid, start_ticks)) FILTER (is_latest AND NOT ${isAbsent}) ELSE count(DISTINCT (pid, start_ticks)) FILTER (NOT ${isAbsent}) END AS instances,
         ${facts.map((name) => `first(${name} ORDER BY managed DESC, is_latest DESC, confidence DESC, coalesce(started, scan) DESC, pid) AS ${name}`).join(", ")},
         min(${plausibleTime("scan", "stored_at")}) AS first_seen, max(${plausibleTime("scan", "stored_at")}) AS last_seen
       FROM instance_now GROUP BY service, agent_id, protocol, port
     ), renamed AS (
       -- The same process on the same port had another name, or an unknown owner: the new row replaces it.
       SELECT n.service, n.agent_id, n.protocol, n.port, list(o.service) AS old_names, arg_max(o.service, o.last_seen) AS old_name,
         arg_max(coalesce(o.previous_method, o.method), o.last_seen) AS old_method
       FROM best n JOIN net.service_registry o ON o.agent_id = n.agent_id AND o.protocol = n.protocol AND o.port = n.port AND o.service <> n.service
         AND ((o.pid = n.pid AND o.start_ticks = n.start_ticks AND n.pid > 0) OR n.managed OR (o.named_by = 'port' AND n.named_by <> 'port'))
       ANTI JOIN best still ON still.service = o.service AND still.agent_id = o.agent_id AND still.protocol = o.protocol AND still.port = o.port
       GROUP BY n.service, n.agent_id, n.protocol, n.port
     )
     SELECT best.*, ${labelOf("best.service")} AS label, old.service IS NOT NULL AS known, coalesce(renamed.old_name, named.old_name) AS old_name, renamed.old_names, coalesce(old.managed, false) AS was_managed,
       coalesce(old.promoted, false) AS promoted, old.status AS old_status,
       CASE WHEN best.managed THEN coalesce(CASE WHEN old.method <> 'manual' THEN old.method END, old.previous_method, renamed.old_method)
         WHEN old.promoted THEN old.previous_method END AS previous_method
     FROM best LEFT JOIN net.service_registry old USING (service, agent_id, protocol, port) LEFT JOIN renamed USING (service, agent_id, protocol, port)
       LEFT JOIN (SELECT service, old_name FROM named_now) named USING (service)`,
  );
  await transaction.run(dropTables("instance_now"));
  await recordRegistryEvents(transaction, nowUs);
  await storeRegistry(transaction, nowUs);
  await transaction.run(dropTables("registry_now", "scan_change", "changed_agent"));
}

async function storeRegistry(transaction: Transaction, nowUs: number): Promise<void> {
  const same = "r.service = n.service AND r.agent_id = n.agent_id AND r.protocol = n.protocol AND r.port = n.port";
  const status = "CASE WHEN n.managed OR n.promoted THEN 'managed' ELSE 'discovered' END";
  const method = "CASE WHEN n.managed THEN 'manual' ELSE n.method END";
  await transaction.run(
    `DELETE FROM net.service_registry r WHERE EXISTS (
       SELECT 1 FROM registry_now n WHERE n.agent_id = r.agent_id AND n.protocol = r.protocol AND n.port = r.port AND list_contains(n.old_names, r.service))`,
  );
  // Most rows are unchanged; only those that differ are written.
  await transaction.run(
    `UPDATE net.service_registry r SET method = ${method}, previous_method = n.previous_method, status = ${status}, managed = n.managed,
       present = true, gone_since = NULL, instances = n.instances, ${facts.map((name) => `${name} = n.${name}`).join(", ")}
     FROM registry_now n WHERE ${same} AND (NOT r.present OR r.method <> ${method} OR r.previous_method IS DISTINCT FROM n.previous_method
       OR r.status <> ${status} OR r.managed <> n.managed OR r.instances <> n.instances
       OR ${facts.map((name) => `r.${name} IS DISTINCT FROM n.${name}`).join(" OR ")})`,
  );
  await transaction.run(
    `INSERT INTO net.service_registry (service, agent_id, protocol, port, method, previous_method, status, managed, promoted, present, instances,
       ${facts.join(", ")}, first_seen, last_seen, known_since, gone_since)
     SELECT n.service, n.agent_id, n.protocol, n.port, ${method}, n.previous_method, ${status}, n.managed, false, true, n.instances,
       ${facts.map((name) => `n.${name}`).join(", ")}, n.first_seen, n.last_seen, make_timestamp(${nowUs}), NULL
     FROM registry_now n WHERE NOT n.known`,
  );
  // While a service exists, its last-seen time is its agent's last scan. The time is only stored when the service is gone.
  await transaction.run(
    `UPDATE net.service_registry r SET present = false, last_seen = coalesce(c.seen_before, r.last_seen), gone_since = make_timestamp(${nowUs})
     FROM scan_change c WHERE r.agent_id = c.agent_id AND r.present AND NOT EXISTS (SELECT 1 FROM registry_now n WHERE ${same})`,
  );
}

/** All services of a new agent share one event. After its second scan, each new service gets its own. */
async function recordRegistryEvents(transaction: Transaction, nowUs: number): Promise<void> {
  await transaction.run(
    `INSERT INTO registry.events
     WITH new_service AS (
       SELECT n.service, any_value(n.label) AS label, min(n.agent_id) AS agent_id, bool_or(c.scans <= 2) AS learning, any_value(CASE WHEN n.managed THEN 'manual' ELSE n.method END) AS method,
         max(n.confidence) AS confidence, min(n.port) AS port, any_value(n.build) AS build, any_value(n.old_name) AS old_name
       FROM registry_now n JOIN scan_change c USING (agent_id)
       WHERE NOT n.known AND (NOT n.managed OR n.previous_method IS NULL) AND n.service NOT IN (SELECT service FROM net.service_registry) GROUP BY n.service
     )
     SELECT make_timestamp(${nowUs}), 'service-discovered', agent_id,
       'Service ' || label || ' was found' || CASE WHEN port > 0 THEN ' on port ' || port ELSE '' END || ' via ' || method
         || CASE WHEN old_name IS NULL THEN '' ELSE '; its name was ' || old_name END,
       json_object('service', service, 'port', port, 'method', method, 'confidence', confidence, 'build', build, 'previousName', old_name)
     FROM new_service WHERE NOT learning
     UNION ALL
     SELECT make_timestamp(${nowUs}), 'service-discovered', agent_id, count(*) || ' services were found on a new agent: '
         || list_aggregate(list_sort(list(label))[:10], 'string_agg', ', ') || CASE WHEN count(*) > 10 THEN ' and more' ELSE '' END,
       json_object('services', list_sort(list(service))[:200], 'count', count(*))
     FROM new_service WHERE learning GROUP BY agent_id`,
  );
  await transaction.run(
    `INSERT INTO registry.events
     SELECT make_timestamp(${nowUs}), 'service-promoted', agent_id,
       'Service ' || label || CASE WHEN port > 0 THEN ' on port ' || port ELSE '' END || ' is managed now; it was discovered via ' || previous_method,
       json_object('service', service, 'port', port, 'previousMethod', previous_method, 'previousName', old_name, 'by', 'manual')
     FROM registry_now WHERE managed AND NOT was_managed AND previous_method IS NOT NULL
     UNION ALL
     SELECT make_timestamp(${nowUs}), 'service-returned', min(agent_id), 'Service ' || any_value(label) || ' is back',
       json_object('service', service, 'agents', list_sort(list(DISTINCT agent_id))[:20])
     FROM registry_now WHERE old_status = 'stale' GROUP BY service`,
  );
}
