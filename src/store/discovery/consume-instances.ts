/** Consumes agents' instance rows: which scans ran, which instances exist now, and which addresses identify a service. */

import type { Transaction } from "../engine/database.ts";
import type { PullRange } from "./pull-range.ts";
import { cleanText, dropTables, isWildcardAddress, plainAddress, plausibleTime, rowOrder } from "./sql-parts.ts";

const identity = ["agent_id", "service", "protocol", "port", "address", "pid", "start_ticks", "netns"];
const content =
  `name origin qualifiers aliases named_by confidence method started exe build build_kind command_line environment user_id user_name cgroup container_id container_name
  unit addresses managed health health_detail`.split(/\s+/);
const sameInstance = (a: string, b: string): string => identity.map((name) => `${a}.${name} = ${b}.${name}`).join(" AND ");

/** Rows of the stored signal as instances; `where` selects them by `r`. */
const instanceRows = (where: string): string => `
  SELECT s.agent_id, r.ingest, r.stored_at, ${rowOrder} AS ord, r."time" AS scan,
    ${cleanText("r.service", 200)} AS service, lower(${cleanText("r.protocol", 8)}) AS protocol,
    least(greatest(coalesce(r.port, 0), 0), 65535)::INTEGER AS port, coalesce(${plainAddress("r.address")}, '') AS address,
    coalesce(r.pid, 0) AS pid, coalesce(r.start_ticks, 0) AS start_ticks, coalesce(r.netns, 0) AS netns,
    nullif(${cleanText("r.name", 200)}, '') AS name, ${cleanText("r.origin", 500)} AS origin,
    CASE WHEN json_valid(r.qualifiers) THEN r.qualifiers END AS qualifiers, CASE WHEN json_valid(r.aliases) THEN r.aliases END AS aliases,
    ${cleanText("r.named_by", 64)} AS named_by, least(greatest(r.confidence, 0), 1) AS confidence, ${cleanText("r.method", 64)} AS method,
    r.started, r.exe, r.build, r.build_kind, r.command_line, r.environment, r.user_id, r.user_name, r.cgroup, r.container_id,
    r.container_name, r.unit, CASE WHEN json_valid(r.addresses) THEN r.addresses END AS addresses, r.managed, r.health, r.health_detail
  FROM raw.service_instance r JOIN internal.sources s USING (source)
  WHERE ${where} AND r.service <> ''`;

/** Consumes a range of rows. Leaves the temporary tables `scan_change` and `instance_now`. Returns the number of rows. */
export async function consumeInstances(transaction: Transaction, range: PullRange): Promise<number> {
  await transaction.run(`CREATE OR REPLACE TEMP TABLE fresh_instance AS ${instanceRows(range.where("r"))}`);
  const [row] = await transaction.query("SELECT count(*) AS rows FROM fresh_instance");
  const rows = Number(row?.["rows"] ?? 0);
  if (rows === 0) return 0;
  await followScans(transaction);
  await transaction.run(dropTables("fresh_instance"));
  await replaceInstances(transaction);
  await replaceAddresses(transaction);
  return rows;
}

/** A scan is a time that rows of one agent share. The newest scan may be incomplete, so the one before counts too. */
async function followScans(transaction: Transaction): Promise<void> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE scan_change AS
     WITH scans AS (
       SELECT agent_id, scan, max(ord) AS ord, min(ingest) AS ingest, min(stored_at) AS stored_at FROM fresh_instance GROUP BY agent_id, scan
     ), new_scans AS (
       SELECT scans.*, row_number() OVER (PARTITION BY agent_id ORDER BY ord) AS nth, count(*) OVER (PARTITION BY agent_id) AS count
       FROM scans LEFT JOIN net.agent_scans known USING (agent_id) WHERE known.last_scan IS DISTINCT FROM scan
     ), by_agent AS (
       SELECT agent_id, max(count) AS count, max(scan) FILTER (nth = 1) AS first, max(scan) FILTER (nth = 2) AS second,
         max(scan) FILTER (nth = count) AS last, max(ingest) FILTER (nth = count) AS last_ingest,
         max(stored_at) FILTER (nth = count) AS scanned_at,
         max(scan) FILTER (nth = count - 1) AS prev, max(ingest) FILTER (nth = count - 1) AS prev_ingest
       FROM new_scans GROUP BY agent_id
     ), heard AS (SELECT agent_id, max(stored_at) AS heard_at, min(ingest) AS ingest FROM fresh_instance GROUP BY agent_id)
     SELECT heard.agent_id, known.agent_id IS NOT NULL AS known,
       CASE WHEN known.scans > 0 THEN known.first_scan ELSE coalesce(by_agent.first, known.first_scan, heard.heard_at) END AS first_scan,
       CASE WHEN known.scans > 1 THEN known.second_scan WHEN known.scans = 1 THEN by_agent.first ELSE by_agent.second END AS second_scan,
       coalesce(by_agent.last, known.last_scan) AS last_scan,
       CASE WHEN by_agent.count > 1 THEN by_agent.prev WHEN by_agent.count = 1 THEN known.last_scan ELSE known.prev_scan END AS prev_scan,
       coalesce(known.scans, 0) + coalesce(by_agent.count, 0) AS scans,
       coalesce(by_agent.last_ingest, known.last_ingest, heard.ingest) AS last_ingest,
       CASE WHEN by_agent.count > 1 THEN by_agent.prev_ingest WHEN by_agent.count = 1 THEN coalesce(known.last_ingest, by_agent.last_ingest)
         ELSE coalesce(known.prev_ingest, heard.ingest) END AS prev_ingest,
       coalesce(by_agent.scanned_at, known.scanned_at) AS scanned_at, heard.heard_at, known.last_scan AS seen_before
     FROM heard LEFT JOIN by_agent USING (agent_id) LEFT JOIN net.agent_scans known USING (agent_id)`,
  );
  await transaction.run(
    `UPDATE net.agent_scans a SET first_scan = c.first_scan, second_scan = c.second_scan, last_scan = c.last_scan, prev_scan = c.prev_scan,
       scans = c.scans, last_ingest = c.last_ingest, prev_ingest = c.prev_ingest, scanned_at = c.scanned_at, heard_at = c.heard_at
     FROM scan_change c WHERE a.agent_id = c.agent_id AND c.known`,
  );
  await transaction.run(
    `INSERT INTO net.agent_scans (agent_id, first_scan, second_scan, last_scan, prev_scan, scans, last_ingest, prev_ingest, scanned_at, heard_at)
     SELECT agent_id, first_scan, second_scan, last_scan, prev_scan, scans, last_ingest, prev_ingest, scanned_at, heard_at
     FROM scan_change WHERE NOT known`,
  );
}

async function replaceInstances(transaction: Transaction): Promise<void> {
  // Rows of the previous scan may have arrived in an earlier cycle, so both scans are read again. If a process has several names at a port,
  // the newest wins.
  const place = identity.filter((name) => name !== "service");
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE instance_now AS
     SELECT i.*, i.scan IS NOT DISTINCT FROM c.last_scan AS is_latest, hash(${content.map((name) => `i.${name}`).join(", ")}) AS content
     FROM (${instanceRows("r.ingest >= (SELECT min(prev_ingest) FROM scan_change)")}) i
     JOIN scan_change c ON c.agent_id = i.agent_id AND (i.scan = c.last_scan OR i.scan = c.prev_scan)
     QUALIFY row_number() OVER (PARTITION BY ${place.map((name) => `i.${name}`).join(", ")} ORDER BY i.ord DESC) = 1`,
  );
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE changed_agent AS
     SELECT agent_id FROM (
       SELECT i.agent_id FROM net.service_instances i SEMI JOIN scan_change c USING (agent_id) ANTI JOIN instance_now n ON ${sameInstance("i", "n")}
       UNION ALL
       SELECT n.agent_id FROM instance_now n ANTI JOIN net.service_instances i ON ${sameInstance("i", "n")} AND i.content = n.content
     ) GROUP BY agent_id`,
  );
  await transaction.run(
    `DELETE FROM net.service_instances i WHERE agent_id IN (FROM changed_agent)
       AND NOT EXISTS (SELECT 1 FROM instance_now n WHERE ${sameInstance("i", "n")})`,
  );
  await transaction.run(
    `UPDATE net.service_instances i SET content = n.content, ${content.map((name) => `${name} = n.${name}`).join(", ")}
     FROM instance_now n WHERE ${sameInstance("i", "n")} AND i.content <> n.content`,
  );
  await transaction.run(
    `INSERT INTO net.service_instances (${[...identity, "content", ...content, "first_seen"].join(", ")})
     SELECT ${[...identity, "content", ...content].map((name) => `n.${name}`).join(", ")}, ${plausibleTime("n.scan", "n.stored_at")}
     FROM instance_now n ANTI JOIN net.service_instances i ON ${sameInstance("i", "n")}`,
  );
}

/**
 * Updates agents whose instances changed. A listener on the wildcard address is reachable at each host address and on loopback; others only
 * at their own.
 */
async function replaceAddresses(transaction: Transaction): Promise<void> {
  await transaction.run("DELETE FROM net.service_addresses WHERE learned_from = 'instance' AND agent_id IN (FROM changed_agent)");
  await transaction.run(
    `INSERT INTO net.service_addresses (agent_id, netns, address, port, protocol, service, learned_from, updated_at)
     WITH instance AS (
       SELECT i.agent_id, i.netns, i.address, i.port, i.protocol, i.service, a.heard_at, ${isWildcardAddress("i.address")} AS wild,
         list_transform(CASE WHEN i.addresses IS NULL THEN [] ELSE json_extract_string(i.addresses, '$[*]') END, lambda x: ${plainAddress("x")})[:64] AS others
       FROM net.service_instances i JOIN net.agent_scans a USING (agent_id) WHERE i.agent_id IN (FROM changed_agent)
     ), address AS (
       SELECT agent_id, netns, address, port, protocol, service, heard_at FROM instance WHERE NOT wild
       UNION ALL
       SELECT agent_id, netns, unnest(others || CASE WHEN wild AND port > 0 THEN ['127.0.0.1', '::1'] ELSE [] END),
         CASE WHEN wild THEN port ELSE 0 END, CASE WHEN wild AND port > 0 THEN protocol ELSE '' END, service, heard_at FROM instance
     )
     SELECT agent_id, netns, address, port, protocol, service, 'instance', max(heard_at) FROM address
     WHERE address IS NOT NULL AND NOT ${isWildcardAddress("address")} GROUP BY agent_id, netns, address, port, protocol, service`,
  );
}
