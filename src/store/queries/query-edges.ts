import { classifySql, sideKey, viewKey } from "../discovery/classify-edges.ts";
import { bucketMinutes, lostSightAfterMs, settleAfterMs } from "../discovery/discovery-settings.ts";
import { coarser } from "../discovery/maintain-discovery.ts";
import { isoTimeIn, numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn, textOrNullIn, textsIn } from "./queryable.ts";

export interface EdgesQuery {
  /** From now back. */
  sinceMs: number;
  nowMs: number;
  /** Only what these agents saw. */
  agentIds?: readonly string[];
  /** Only edges with this service at either end. */
  service?: string;
  /** The colony's file, as it is attached. */
  database: string;
}

export interface EdgeEndRow {
  kind: "service" | "external" | "host";
  name: string;
  addresses: string[];
  agentIds: string[];
  resolved: { name: string; method: string; provider: string | null; product: string | null } | null;
}

/** Who called whom within a time. Amounts are those of the end that saw more; retransmits are of both. */
export interface EdgeRow {
  class: "INTERNAL" | "INGRESS" | "EGRESS";
  confidence: number;
  evidence: string[];
  protocol: string;
  serverPort: number;
  client: EdgeEndRow;
  server: EdgeEndRow;
  connections: number;
  openConnections: number;
  opened: number;
  bytesToServer: number;
  bytesToClient: number;
  rttUs: number | null;
  retransmits: number | null;
  firstSeenAt: string;
  lastSeenAt: string;
  firstBuild: string | null;
}

export interface EdgesResult {
  edges: EdgeRow[];
  cutEdges: number;
  skippedConnections: number;
  skippedAgentIds: string[];
  unsettledConnections: number;
  /** The time that the amounts cover: totals are kept by five minutes, later by hours and days. */
  windowMs: number;
}

/** Bounds what one answer takes in memory. */
const edgesMax = 100_000;

export async function queryEdges(store: Queryable, query: EdgesQuery): Promise<EdgesResult> {
  const startMs = windowStartMs(query.nowMs, query.sinceMs);
  const startUs = Math.floor(startMs * 1_000);
  const nowUs = Math.floor(query.nowMs * 1_000);
  const parts = partsSql(query.database, startUs, nowUs, query.agentIds);
  const wanted =
    query.service === undefined
      ? ""
      : "WHERE (client_kind = 'service' AND client = $service) OR (server_kind = 'service' AND server = $service)";
  const parameters = query.service === undefined ? {} : { service: query.service };
  const rows = await store.query(
    `SELECT * FROM (${edgesSql(query.database, parts)}) ${wanted} ORDER BY connections DESC, client, server, server_port LIMIT ${edgesMax + 1}`,
    parameters,
  );
  const [left] = await store.query(
    `WITH part AS (${parts}),
       skipped AS (SELECT agent_id, sum(closed + open) AS connections FROM part WHERE service = '' AND peer_service = '' GROUP BY agent_id)
     SELECT (SELECT coalesce(sum(connections), 0) FROM skipped) AS skipped, (SELECT list(agent_id ORDER BY connections DESC) FROM skipped) AS skipped_agents,
       (SELECT count(*) FROM "${query.database}".net.connection_sides WHERE pairing = '' AND service <> '' AND NOT is_local AND pend_opened > 0
         AND arrived_at > make_timestamp(${nowUs - settleAfterMs * 1_000})) AS unsettled,
       (SELECT epoch_us(min(first_scan)) FROM "${query.database}".net.agent_scans) AS watched_since`,
  );
  const watchedMs = query.nowMs - (numberOrNullIn(left ?? {}, "watched_since") ?? query.nowMs * 1_000) / 1_000;
  return {
    edges: rows.slice(0, edgesMax).map(edgeOf),
    cutEdges: Math.max(0, rows.length - edgesMax),
    skippedConnections: numberIn(left ?? {}, "skipped"),
    skippedAgentIds: textsIn(left ?? {}, "skipped_agents"),
    unsettledConnections: numberIn(left ?? {}, "unsettled"),
    windowMs: Math.max(60_000, Math.min(query.nowMs - startMs, watchedMs)),
  };
}

/** The border of a kept interval at or before the time asked for. */
export function windowStartMs(nowMs: number, sinceMs: number): number {
  const hours = sinceMs / 3_600_000;
  const level = coarser.findLast(({ afterHours }) => hours >= afterHours);
  const stepMs = level?.interval === "1 DAY" ? 86_400_000 : level?.interval === "1 HOUR" ? 3_600_000 : bucketMinutes * 60_000;
  return Math.floor((nowMs - sinceMs) / stepMs) * stepMs;
}

/** Views with their amounts: what is in the totals, and what live ends have gathered since. */
export function partsSql(database: string, startUs: number, nowUs: number | "now", agentIds?: readonly string[]): string {
  const net = `"${database}".net`;
  const keys = viewKey.join(", ");
  const chosen =
    agentIds === undefined ? "" : `AND agent_id IN (${["", ...agentIds].map((id) => `'${id.replaceAll("'", "''")}'`).join(", ")})`;
  const now = nowUs === "now" ? "now()::TIMESTAMP" : `make_timestamp(${nowUs})`;
  const isOpen = `s.state = 'open' AND s.updated_at > ${now} - INTERVAL ${lostSightAfterMs} MILLISECOND`;
  return `
    SELECT ${keys}, sum(opened) AS opened, sum(closed) AS closed, sum(open) AS open, sum(bytes_out) AS bytes_out, sum(bytes_in) AS bytes_in,
      sum(retransmits) AS retransmits, sum(rtt_sum) AS rtt_sum, sum(rtt_count) AS rtt_count, min(first_seen) AS first_seen, max(last_seen) AS last_seen
    FROM (
      SELECT ${keys}, opened, closed, 0 AS open, bytes_out, bytes_in, retransmits, rtt_sum, rtt_count, first_seen, last_seen
      FROM ${net}.edge_totals WHERE bucket >= make_timestamp(${startUs}) ${chosen}
      UNION ALL
      SELECT ${sideKey}, s.pend_opened, s.pend_closed, CASE WHEN ${isOpen} THEN s.connections ELSE 0 END, s.pend_out, s.pend_in, s.pend_retransmits,
        s.pend_rtt_sum + CASE WHEN s.pend_rtt_count = 0 AND s.state = 'open' THEN coalesce(s.rtt_us, 0) ELSE 0 END,
        s.pend_rtt_count + CASE WHEN s.pend_rtt_count = 0 AND s.state = 'open' AND s.rtt_us IS NOT NULL THEN 1 ELSE 0 END, s.began, s.last_seen
      FROM ${net}.connection_sides s WHERE (${isOpen} OR s.last_seen >= make_timestamp(${startUs})) ${chosen.replace("agent_id", "s.agent_id")}
    ) GROUP BY ${keys}`;
}

/** Edges from views: one row per client, server, protocol and port. Both ends' views of the same connections are joined, not added. */
export function edgesSql(database: string, parts: string): string {
  const net = `"${database}".net`;
  return `
    WITH part AS (${parts}),
    judged AS (${classifySql(database, `SELECT ${viewKey.join(", ")} FROM part`)}),
    directed AS (
      SELECT j.class, j.confidence, j.evidence, j.role, j.protocol, j.server_port,
        CASE WHEN j.role = 'client' THEN 'service' ELSE j.peer_kind END AS client_kind, CASE WHEN j.role = 'client' THEN j.service ELSE j.peer_name END AS client,
        CASE WHEN j.role = 'server' THEN 'service' ELSE j.peer_kind END AS server_kind, CASE WHEN j.role = 'server' THEN j.service ELSE j.peer_name END AS server,
        CASE WHEN j.role = 'client' THEN j.own_address ELSE j.peer_address END AS client_address,
        CASE WHEN j.role = 'server' THEN j.own_address ELSE j.peer_address END AS server_address,
        CASE WHEN j.role = 'client' THEN j.agent_id ELSE j.peer_agent END AS client_agent, CASE WHEN j.role = 'server' THEN j.agent_id ELSE j.peer_agent END AS server_agent,
        CASE WHEN j.role = 'client' THEN p.bytes_out ELSE p.bytes_in END AS to_server, CASE WHEN j.role = 'client' THEN p.bytes_in ELSE p.bytes_out END AS to_client,
        p.opened, p.closed, p.open, p.retransmits, p.rtt_sum, p.rtt_count, p.first_seen, p.last_seen
      FROM judged j JOIN part p ON ${viewKey.map((name) => `j.${name} = p.${name}`).join(" AND ")}
    ),
    by_role AS (
      SELECT class, protocol, server_port, client_kind, client, server_kind, server, role, max(confidence) AS confidence,
        list_distinct(flatten(list(evidence))) AS evidence, sum(opened) AS opened, sum(closed) AS closed, sum(open) AS open, sum(to_server) AS to_server,
        sum(to_client) AS to_client, sum(retransmits) AS retransmits, sum(rtt_sum) AS rtt_sum, sum(rtt_count) AS rtt_count, min(first_seen) AS first_seen,
        max(last_seen) AS last_seen, list(DISTINCT client_address)[:5] AS client_addresses, list(DISTINCT server_address)[:5] AS server_addresses,
        list(DISTINCT client_agent)[:100] AS client_agents, list(DISTINCT server_agent)[:100] AS server_agents
      FROM directed GROUP BY ALL
    ),
    edge AS (
      SELECT class, protocol, server_port, client_kind, client, server_kind, server, max(confidence) AS confidence,
        list_sort(list_distinct(flatten(list(evidence)))) AS evidence, max(opened) AS opened, max(greatest(closed, 0) + open) AS connections, max(open) AS open,
        max(to_server) AS to_server, max(to_client) AS to_client, sum(retransmits) AS retransmits, sum(rtt_sum) AS rtt_sum, sum(rtt_count) AS rtt_count,
        min(first_seen) AS first_seen, max(last_seen) AS last_seen, list_sort(list_distinct(flatten(list(client_addresses)))) AS client_addresses,
        list_sort(list_distinct(flatten(list(server_addresses)))) AS server_addresses, list_sort(list_distinct(flatten(list(client_agents)))) AS client_agents,
        list_sort(list_distinct(flatten(list(server_agents)))) AS server_agents
      FROM by_role GROUP BY ALL
    ),
    first_use AS (
      SELECT e.service, n.ip_address, n.endpoint_type, CASE WHEN n.endpoint_type = 'ingress' THEN e.service_port ELSE n.port END AS port, n.protocol,
        min(e.first_seen) AS first_seen, arg_min(e.first_build, e.first_seen) AS build
      FROM ${net}.service_endpoints e JOIN ${net}.network_endpoints n ON n.id = e.endpoint_id GROUP BY ALL
    )
    SELECT e.* REPLACE (least(e.first_seen, coalesce(u.first_seen, e.first_seen)) AS first_seen), u.build AS first_build,
      r.resolved_name, r.resolution_method, r.provider, r.product
    FROM edge e
    LEFT JOIN first_use u ON u.endpoint_type = lower(e.class) AND u.port = e.server_port AND u.protocol = e.protocol
      AND u.service = CASE WHEN e.class = 'INGRESS' THEN e.server ELSE e.client END AND u.ip_address = CASE WHEN e.class = 'INGRESS' THEN e.client ELSE e.server END
    LEFT JOIN ${net}.endpoint_resolution r ON e.class <> 'INTERNAL' AND r.ip_address = CASE WHEN e.class = 'INGRESS' THEN e.client ELSE e.server END`;
}

function edgeOf(row: QueryRow): EdgeRow {
  const rttCount = numberIn(row, "rtt_count");
  const resolved =
    textOrNullIn(row, "resolved_name") === null
      ? null
      : {
          name: textIn(row, "resolved_name"),
          method: textIn(row, "resolution_method"),
          provider: textOrNullIn(row, "provider"),
          product: textOrNullIn(row, "product"),
        };
  return {
    class: textIn(row, "class") as EdgeRow["class"],
    confidence: numberIn(row, "confidence"),
    evidence: textsIn(row, "evidence"),
    protocol: textIn(row, "protocol"),
    serverPort: numberIn(row, "server_port"),
    client: endOf(row, "client", resolved),
    server: endOf(row, "server", resolved),
    connections: numberIn(row, "connections"),
    openConnections: numberIn(row, "open"),
    opened: numberIn(row, "opened"),
    bytesToServer: numberIn(row, "to_server"),
    bytesToClient: numberIn(row, "to_client"),
    rttUs: rttCount > 0 ? Math.round(numberIn(row, "rtt_sum") / rttCount) : null,
    retransmits: numberOrNullIn(row, "retransmits"),
    firstSeenAt: isoTimeIn(row, "first_seen"),
    lastSeenAt: isoTimeIn(row, "last_seen"),
    firstBuild: textOrNullIn(row, "first_build"),
  };
}

function endOf(row: QueryRow, end: "client" | "server", resolved: EdgeEndRow["resolved"]): EdgeEndRow {
  const kind = textIn(row, `${end}_kind`) as EdgeEndRow["kind"];
  const name = textIn(row, end);
  const agentIds = textsIn(row, `${end}_agents`).filter((id) => id !== "");
  return {
    kind,
    name,
    addresses: kind === "external" ? [] : textsIn(row, `${end}_addresses`).filter((address) => address !== ""),
    agentIds: kind === "host" && agentIds.length === 0 ? [name] : agentIds,
    resolved: kind === "external" ? resolved : null,
  };
}
