/** Published views of services, instances, connections and edges. */

import { classifySql, evidenceNames, sideKey } from "../discovery/classify-edges.ts";
import { edgesSql, partsSql } from "../queries/query-edges.ts";

/** The shape of a published view; published-views.ts creates it. */
export interface DiscoveryView {
  name: string;
  description: string;
  columns: { name: string; type: string; sql: string }[];
  from: string;
}

const text = (name: string, sql = name): DiscoveryView["columns"][number] => ({ name, type: "VARCHAR", sql });
const texts = (name: string, sql = name): DiscoveryView["columns"][number] => ({ name, type: "VARCHAR[]", sql });
const time = (name: string, sql = name): DiscoveryView["columns"][number] => ({ name, type: "TIMESTAMP", sql });
const int = (name: string, sql = name): DiscoveryView["columns"][number] => ({ name, type: "BIGINT", sql: `(${sql})::BIGINT` });
const float = (name: string, sql = name): DiscoveryView["columns"][number] => ({ name, type: "DOUBLE", sql: `(${sql})::DOUBLE` });
const bool = (name: string, sql = name): DiscoveryView["columns"][number] => ({ name, type: "BOOLEAN", sql });

/** `hasSpanEdges`: the colony stores calls from spans. */
export function discoveryViews(database: string, hasSpanEdges: boolean): DiscoveryView[] {
  const net = `"${database}".net`;
  return [servicesView(net), instancesView(net), connectionsView(database), edgesView(database, hasSpanEdges), endpointsView(net)];
}

function servicesView(net: string): DiscoveryView {
  return {
    name: "services",
    description: "The service registry: one row per service, agent and port; port is null for services that only call out",
    columns: [
      ...["service", "agent_id"].map((name) => text(name)),
      text("protocol", "nullif(protocol, '')"),
      int("port", "nullif(port, 0)"),
      ...["status", "method", "previous_method", "named_by"].map((name) => text(name)),
      float("confidence"),
      int("instances"),
      int("pid", "nullif(pid, 0)"),
      ...["exe", "build", "build_kind", "command_line", "health", "health_detail"].map((name) => text(name)),
      time("first_seen"),
      time("last_seen", "CASE WHEN present THEN coalesce(last_scan, last_seen) ELSE last_seen END"),
      text("service_id", "service"),
      text("origin"),
    ],
    from: `(SELECT r.*, a.last_scan, n.origin FROM ${net}.service_registry r LEFT JOIN ${net}.agent_scans a USING (agent_id) LEFT JOIN ${net}.services n USING (service))`,
  };
}

function instancesView(net: string): DiscoveryView {
  return {
    name: "service_instances",
    description: "Processes of services as of their agents' newest scans, one row per port; service_instance has the history",
    columns: [
      ...["service", "agent_id"].map((name) => text(name)),
      int("pid", "nullif(pid, 0)"),
      time("started"),
      text("protocol", "nullif(protocol, '')"),
      text("address", "nullif(address, '')"),
      int("port", "nullif(port, 0)"),
      ...["exe", "build", "build_kind", "command_line", "environment", "user_name", "cgroup", "container_id"].map((name) => text(name)),
      ...["container_name", "unit", "named_by"].map((name) => text(name)),
      float("confidence"),
      text("method"),
      bool("managed"),
      ...["health", "health_detail"].map((name) => text(name)),
      time("first_seen"),
    ],
    from: `${net}.service_instances`,
  };
}

function connectionsView(database: string): DiscoveryView {
  const net = `"${database}".net`;
  return {
    name: "connections",
    description: "Connections that are open or ended a moment ago, both ends joined where both were seen; edges has the totals",
    columns: [
      text("source_service"),
      text("dest_service"),
      text("class"),
      float("confidence"),
      bool("merged"),
      text("source_agent"),
      text("dest_agent"),
      ...["protocol", "source_address"].map((name) => text(name)),
      int("source_port"),
      text("dest_address"),
      int("dest_port"),
      text("state"),
      text("attribution"),
      int("pid"),
      time("first_seen"),
      time("last_seen"),
      int("connections"),
      ...["bytes_to_server", "bytes_to_client", "rtt_us", "retransmits"].map((name) => int(name)),
    ],
    from: `(
      WITH side AS (
        SELECT ${sideKey}, s.id, s.client_address, s.client_port, s.server_address, s.server_port AS dest_port, s.state, s.attribution, s.pid, s.began, s.last_seen,
          s.connections, s.bytes_sent, s.bytes_received, s.rtt_us, s.retransmits
        FROM ${net}.connection_sides s
        WHERE s.role = 'client' OR s.peer_id IS NULL OR s.peer_id NOT IN (SELECT id FROM ${net}.connection_sides)
      ), judged AS (${classifySql(database, "SELECT * FROM side")})
      SELECT nullif(CASE WHEN s.role = 'client' THEN s.service WHEN j.peer_kind = 'service' THEN j.peer_name ELSE '' END, '') AS source_service,
        nullif(CASE WHEN s.role = 'server' THEN s.service WHEN j.peer_kind = 'service' THEN j.peer_name ELSE '' END, '') AS dest_service,
        j.class, j.confidence, s.peer_service <> '' AND s.service <> '' AS merged,
        nullif(CASE WHEN s.role = 'client' THEN s.agent_id ELSE s.peer_agent END, '') AS source_agent,
        nullif(CASE WHEN s.role = 'server' THEN s.agent_id ELSE s.peer_agent END, '') AS dest_agent,
        s.protocol, s.client_address AS source_address, s.client_port AS source_port, s.server_address AS dest_address, s.dest_port,
        s.state, s.attribution, s.pid, s.began AS first_seen, s.last_seen, s.connections,
        CASE WHEN s.role = 'client' THEN s.bytes_sent ELSE s.bytes_received END AS bytes_to_server,
        CASE WHEN s.role = 'client' THEN s.bytes_received ELSE s.bytes_sent END AS bytes_to_client, s.rtt_us, s.retransmits
      FROM side s LEFT JOIN judged j ON j.id = s.id)`,
  };
}

function edgesView(database: string, hasSpanEdges: boolean): DiscoveryView {
  return {
    name: "edges",
    description: "Who calls whom, over all stored time; a client or server is a service, an external address or a host",
    columns: [
      text("class"),
      float("confidence"),
      texts("evidence", `list_concat(${evidenceNames("evidence")}, CASE WHEN requests IS NULL THEN [] ELSE ['spans'] END)`),
      text("client_kind"),
      text("client"),
      text("server_kind"),
      text("server"),
      text("external_name", "resolved_name"),
      text("protocol"),
      int("port", "server_port"),
      int("connections"),
      int("open_connections", "open"),
      int("bytes_to_server", "to_server"),
      int("bytes_to_client", "to_client"),
      int("rtt_us", "CASE WHEN rtt_count > 0 THEN rtt_sum / rtt_count END"),
      int("retransmits"),
      ...["failures", "refused", "reset", "timed_out"].map((name) => int(name)),
      time("first_seen"),
      time("last_seen"),
      text("first_build"),
      float("requests"),
      float("errors"),
    ],
    from: `(${hasSpanEdges ? withSpansSql(database) : `SELECT *, NULL AS requests, NULL AS errors FROM (${edgesSql(database, partsSql(database, 0, "now"))})`})`,
  };
}

/** Confidence of an edge known only from spans, as in topology answers. */
const spanConfidence = 0.95;

/**
 * Edges from connections, with the calls that spans show between the same services, and edges that only spans show. Programs name
 * themselves in spans, so services are compared by label. If an edge has several ports, its calls are counted once, on the row with most
 * connections.
 */
function withSpansSql(database: string): string {
  const names = `"${database}".net.service_names`;
  const label = (of: string): string => `coalesce((SELECT any_value(n.label) FROM ${names} n WHERE n.text = ${of}), ${of})`;
  const isNew = `ingest > (SELECT coalesce(max(ingest), 0) FROM "${database}".internal.rollup_progress WHERE name = 'span_edge_10m')`;
  return `
    WITH edge AS (
      SELECT *, CASE WHEN client_kind = 'service' AND server_kind = 'service' THEN ${label("client")} END AS from_label, ${label("server")} AS to_label,
        row_number() OVER (PARTITION BY client, server ORDER BY connections DESC, server_port) AS place
      FROM (${edgesSql(database, partsSql(database, 0, "now"))})
    ), called AS (
      SELECT client, server, arg_max(protocol, requests) AS protocol, sum(requests) AS requests, sum(errors) AS errors, min(first_seen) AS first_seen,
        max(last_seen) AS last_seen
      FROM (
        SELECT client, server, protocol, requests_sum AS requests, errors_sum AS errors, first_seen_min AS first_seen, last_seen_max AS last_seen
        FROM "${database}".rollup.span_edge_10m
        UNION ALL SELECT client, server, protocol, requests, errors, first_seen, last_seen FROM "${database}".raw.span_edge WHERE ${isNew}
      ) GROUP BY client, server
    ), labelled AS (
      SELECT ${label("client")} AS from_label, ${label("server")} AS to_label, arg_max(protocol, requests) AS protocol, sum(requests) AS requests,
        sum(errors) AS errors, min(first_seen) AS first_seen, max(last_seen) AS last_seen
      FROM called GROUP BY ALL
    )
    SELECT e.* EXCLUDE (from_label, to_label, place), s.requests, s.errors
    FROM edge e LEFT JOIN labelled s ON s.from_label = e.from_label AND s.to_label = e.to_label AND e.place = 1
    UNION ALL BY NAME
    SELECT 'INTERNAL' AS class, ${spanConfidence} AS confidence, 0 AS evidence, 'service' AS client_kind, s.from_label AS client, 'service' AS server_kind,
      s.to_label AS server, s.protocol, 0 AS connections, 0 AS "open", s.first_seen, s.last_seen, s.requests, s.errors
    FROM labelled s WHERE NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_label = s.from_label AND e.to_label = s.to_label)`;
}

function endpointsView(net: string): DiscoveryView {
  return {
    name: "endpoints",
    description: "External addresses that services call (egress) or are called from (ingress), with their names",
    columns: [
      ...["service", "agent_id", "endpoint_type", "address"].map((name) => text(name)),
      int("port"),
      text("protocol"),
      ...["resolved_name", "resolution_method", "provider", "product"].map((name) => text(name)),
      int("connections"),
      time("first_seen"),
      time("last_seen"),
      text("first_build"),
    ],
    from: `(SELECT e.service, e.agent_id, n.endpoint_type, n.ip_address AS address, CASE WHEN n.endpoint_type = 'ingress' THEN e.service_port ELSE n.port END AS port,
      n.protocol, r.resolved_name, r.resolution_method, r.provider, r.product, e.connection_count AS connections, e.first_seen, e.last_seen, e.first_build
      FROM ${net}.service_endpoints e JOIN ${net}.network_endpoints n ON n.id = e.endpoint_id LEFT JOIN ${net}.endpoint_resolution r ON r.ip_address = n.ip_address)`,
  };
}
