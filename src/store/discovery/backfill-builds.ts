/**
 * Adds builds that become known after their connections: a large executable is hashed in the background, and its process may be named a
 * scan later.
 */

import type { Transaction } from "../engine/database.ts";
import { dropTables } from "./sql-parts.ts";

/** Older rows stay without a build: it may have been a different one. */
const maxAge = "INTERVAL 1 HOUR";

/**
 * Call after consumeInstances(). Ends get the build of their process, or of their service if it has only one. External endpoints, and the
 * events about them, get the build that used them first.
 */
export async function backfillBuilds(transaction: Transaction, nowUs: number): Promise<void> {
  const [row] = await transaction.query(
    `SELECT EXISTS (SELECT 1 FROM net.connection_sides WHERE build IS NULL AND service <> '')
       OR EXISTS (SELECT 1 FROM net.service_endpoints WHERE first_build IS NULL AND updated_at > make_timestamp(${nowUs}) - ${maxAge}) AS isWanted`,
  );
  if (row?.["isWanted"] !== true) return;
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE one_build AS
     SELECT agent_id, service, any_value(build) AS build FROM net.service_instances GROUP BY agent_id, service HAVING min(build) = max(build)`,
  );
  await transaction.run(
    `UPDATE net.connection_sides s SET build = i.build FROM (
       SELECT agent_id, pid, start_ticks, any_value(build) AS build FROM net.service_instances WHERE pid > 0 AND build IS NOT NULL GROUP BY ALL
     ) i WHERE s.build IS NULL AND i.agent_id = s.agent_id AND i.pid = s.pid AND i.start_ticks = s.start_ticks`,
  );
  await transaction.run(
    `UPDATE net.connection_sides s SET build = b.build FROM one_build b WHERE s.build IS NULL AND b.agent_id = s.agent_id AND b.service = s.service`,
  );
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE learnt_build AS
     WITH unknown AS (
       SELECT e.service, e.agent_id, e.endpoint_id, e.service_port, e.endpoint_type, n.ip_address AS address,
         CASE WHEN e.endpoint_type = 'ingress' THEN e.service_port ELSE n.port END AS port
       FROM net.service_endpoints e JOIN net.network_endpoints n ON n.id = e.endpoint_id
       WHERE e.first_build IS NULL AND e.updated_at > make_timestamp(${nowUs}) - ${maxAge}
     ), seen AS (
       SELECT u.service, u.agent_id, u.endpoint_id, u.service_port, arg_min(s.build, s.began) AS build
       FROM unknown u JOIN net.connection_sides s ON s.agent_id = u.agent_id AND s.service = u.service AND s.edge_port = u.port AND s.build IS NOT NULL
         AND u.address = CASE WHEN u.endpoint_type = 'egress' THEN s.server_address ELSE s.client_address END
         AND s.role = CASE WHEN u.endpoint_type = 'egress' THEN 'client' ELSE 'server' END
       GROUP BY ALL
     )
     SELECT u.*, coalesce(seen.build, b.build) AS build FROM unknown u LEFT JOIN seen USING (service, agent_id, endpoint_id, service_port)
     LEFT JOIN one_build b ON b.agent_id = u.agent_id AND b.service = u.service WHERE coalesce(seen.build, b.build) IS NOT NULL`,
  );
  await transaction.run(
    `UPDATE net.service_endpoints e SET first_build = l.build FROM learnt_build l
     WHERE e.service = l.service AND e.agent_id = l.agent_id AND e.endpoint_id = l.endpoint_id AND e.service_port = l.service_port`,
  );
  await transaction.run(
    `UPDATE registry.events e SET details = json_merge_patch(e.details, json_object('build', l.build)), message = e.message || ', with build ' || left(l.build, 12)
     FROM (SELECT service, agent_id, endpoint_type, address, port, any_value(build) AS build FROM learnt_build GROUP BY ALL) l
     WHERE e.kind = l.endpoint_type || '-new' AND e.agent_id = l.agent_id AND e.occurred_at > make_timestamp(${nowUs}) - ${maxAge}
       AND (e.details->>'service') = l.service AND (e.details->>'address') = l.address AND (e.details->>'port')::BIGINT = l.port AND (e.details->>'build') IS NULL`,
  );
  await transaction.run(dropTables("one_build", "learnt_build"));
}
