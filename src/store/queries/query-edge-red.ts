/** Requests per edge of the topology: rate, errors and percentiles for each client and server. */

import type { EdgeEndKind, EdgeRedFacts, EdgeRedKey, EdgesRequest } from "../../model/edges.ts";
import type { Resolved } from "../../model/services.ts";
import { classifySql } from "../discovery/classify-edges.ts";
import { isLocalAddress } from "../discovery/sql-parts.ts";
import { numberIn, type Queryable, textIn } from "../tables/queryable.ts";
import { percentileIn, percentilesSql, redSumsSql, redWindow, withPeerSql } from "./red-parts.ts";
import { namedFilter } from "./service-filter.ts";

export interface EdgeRedQuery extends Resolved<EdgesRequest> {
  nowMs: number;
  /** Return only these edges. */
  among?: readonly EdgeRedKey[];
  /** The name under which the colony's database is attached. */
  database?: string;
}

const edgesMax = 100_000;
const ends = "client_kind, client, server_kind, server, server_port";
/** Key of one end's view of requests. Stored rows have it in addition to route, status and time. */
const viewKey = ["source", "service", "role", "protocol", "server_port", "peer", "peer_address"];
const [edgeSeparator, fieldSeparator] = ["\u001e", "\u001f"];

export async function queryEdgeRed(store: Queryable, query: EdgeRedQuery): Promise<EdgeRedFacts> {
  const window = await redWindow(store, { sinceMs: query.sinceMs, nowMs: query.nowMs, one: query.service !== undefined });
  const windowMs = Math.min(window.coveredMs, query.sinceMs);
  // Resolving peers reads all connections; skip it if hooks have seen no requests.
  if (!window.hasRows || query.among?.length === 0) return { edges: [], windowMs };
  const { sql, parameters } = redSumsSql(window, query.nowMs, query.agentIds === undefined ? {} : { agentIds: query.agentIds });
  const { where, parameters: chosen } = wanted(query);
  const rows = await store.query(
    // Sum before resolving peers, and unnest only the histograms of returned edges: these two steps cost the most.
    `WITH seen AS MATERIALIZED (
       SELECT row_number() OVER () AS view, * FROM (
         SELECT ${viewKey.join(", ")}, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors FROM (${sql}) GROUP BY ALL
       )
     ),
     part AS MATERIALIZED (SELECT * FROM (${namedEndsSql(query.database ?? "colony", "SELECT * FROM seen")}) ${where}),
     counted AS (
       SELECT ${ends}, role, sum(requests) AS requests, sum(errors) AS errors, arg_max(protocol, requests) AS protocol FROM (
         SELECT ${ends}, role, protocol, sum(requests) AS requests, sum(errors) AS errors FROM part GROUP BY ALL
       ) GROUP BY ALL
     ),
     grouped AS MATERIALIZED (
       SELECT *, row_number() OVER (ORDER BY requests DESC, ${ends}) AS gid FROM (
         SELECT * FROM counted QUALIFY row_number() OVER (PARTITION BY ${ends} ORDER BY requests DESC, role) = 1
       ) QUALIFY gid <= ${edgesMax}
     ),
     reported AS (SELECT g.gid, s.* FROM part p JOIN grouped g USING (${ends}, role) JOIN seen s USING (view))
     SELECT g.*, d.* EXCLUDE (gid) FROM grouped g LEFT JOIN (${percentilesSql(
       `SELECT t.gid, r.duration_lo, r.duration_counts FROM (${sql}) r JOIN reported t ON ${viewKey.map((name) => (name === "peer" ? "coalesce(r.peer, '') = coalesce(t.peer, '')" : `r.${name} = t.${name}`)).join(" AND ")}`,
       "duration",
     )}) d ON d.gid = g.gid ORDER BY g.gid`,
    { ...parameters, ...chosen },
  );
  return {
    edges: rows.map((row) => ({
      client: { kind: textIn(row, "client_kind") as EdgeEndKind, name: textIn(row, "client") },
      server: { kind: textIn(row, "server_kind") as EdgeEndKind, name: textIn(row, "server") },
      serverPort: numberIn(row, "server_port"),
      protocol: textIn(row, "protocol"),
      role: textIn(row, "role") === "client" ? "client" : "server",
      requests: numberIn(row, "requests"),
      errors: numberIn(row, "errors"),
      p50Us: percentileIn(row, "p50", 0),
      p95Us: percentileIn(row, "p95", 0),
      p99Us: percentileIn(row, "p99", 0),
    })),
    windowMs,
  };
}

function wanted({ service, among }: EdgeRedQuery): { where: string; parameters: Record<string, string> } {
  const conditions: string[] = [];
  const filter = service === undefined ? undefined : namedFilter(service);
  if (filter !== undefined) {
    conditions.push(
      `((client_kind = 'service' AND client IN (${filter.list})) OR (server_kind = 'service' AND server IN (${filter.list})))`,
    );
  }
  if (among !== undefined) {
    const key = ends.split(", ").join(`, '${fieldSeparator}', `);
    conditions.push(`concat(${key}) IN (SELECT unnest(string_split($among, '${edgeSeparator}')))`);
  }
  return {
    where: conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`,
    parameters: {
      ...filter?.parameters,
      ...(among === undefined ? {} : { among: among.map(textOfKey).join(edgeSeparator) }),
    },
  };
}

/** A name that contains the separator would match nothing, which is harmless. */
function textOfKey({ client, server, serverPort }: EdgeRedKey): string {
  return [client.kind, client.name, server.kind, server.name, serverPort].join(fieldSeparator);
}

/**
 * Rows with both ends named. A peer that the agent or the registry identified comes first, then what connections between the same ends
 * resolved to. Excludes unidentified callers on the host itself: any process may have their address.
 */
function namedEndsSql(database: string, rows: string): string {
  const isOnly = "HAVING min(peer_kind || ' ' || peer_name) = max(peer_kind || ' ' || peer_name)";
  const kind = `CASE WHEN p.is_who_service THEN 'service' ELSE coalesce(v.kind, CASE WHEN ${isLocalAddress("p.peer_address")} THEN NULL ELSE 'external' END) END`;
  const name = "CASE WHEN p.is_who_service THEN p.who ELSE coalesce(v.name, p.peer_address) END";
  const own = (role: string, mine: string, other: string): string => `CASE WHEN role = '${role}' THEN ${mine} ELSE ${other} END`;
  return `SELECT *, ${own("client", "'service'", "other_kind")} AS client_kind, ${own("client", "service", "other")} AS client,
      ${own("server", "'service'", "other_kind")} AS server_kind, ${own("server", "service", "other")} AS server
    FROM (
      SELECT p.view, p.role, p.service, p.protocol, p.server_port, p.requests, p.errors, ${kind} AS other_kind, ${name} AS other
      FROM (${withPeerSql(rows)}) p JOIN internal.sources s ON s.source = p.source
      LEFT JOIN (
        SELECT agent_id, role, service, peer_address, server_port, any_value(peer_kind) AS kind, any_value(peer_name) AS name
        FROM (${classifySql(database, `SELECT * FROM "${database}".net.edge_views`)}) GROUP BY ALL ${isOnly}
      ) v ON v.agent_id = s.agent_id AND v.role = p.role AND v.service = p.service AND v.peer_address = p.peer_address AND v.server_port = p.server_port
    ) WHERE other_kind IS NOT NULL`;
}
