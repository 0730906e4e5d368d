import type { CheckHealth, Resolved, ServiceAtAgent, ServicePort, ServiceStatus, ServicesRequest } from "../../model/services.ts";
import {
  booleanIn,
  isoTimeIn,
  isoTimeOrNullIn,
  numberIn,
  type Queryable,
  type QueryRow,
  textIn,
  textOrNullIn,
  textsIn,
} from "../tables/queryable.ts";
import { namedFilter } from "./service-filter.ts";

/** SQL for `address:port`, with IPv6 addresses in brackets. */
const hostPort = "CASE WHEN contains(address, ':') THEN '[' || address || ']' ELSE address END || ':' || port";

/** Sorted by service, then agent. */
export async function queryServices(store: Queryable, query: Resolved<ServicesRequest> = { processes: false }): Promise<ServiceAtAgent[]> {
  const filter = query.service === undefined ? undefined : namedFilter(query.service);
  const chosen = filter === undefined ? "" : `WHERE service IN (${filter.list})`;
  const parameters = filter?.parameters ?? {};
  const rows = await store.query(
    `WITH running AS (
       SELECT service, agent_id, list_sort(list(DISTINCT pid) FILTER (pid > 0)) AS pids, list_sort(list(DISTINCT ${hostPort}) FILTER (port > 0))[:50] AS addresses,
         count(DISTINCT (pid, start_ticks)) AS instances
       FROM net.service_instances ${chosen} GROUP BY ALL
     ), outside AS (
       SELECT service, agent_id, bool_or(endpoint_type = 'ingress') AS ingress, bool_or(endpoint_type = 'egress') AS egress
       FROM net.service_endpoints ${chosen} GROUP BY ALL
     )
     SELECT r.*, CASE WHEN r.present THEN coalesce(a.last_scan, r.last_seen) ELSE r.last_seen END AS seen, running.pids, running.addresses,
       running.instances AS running, coalesce(outside.ingress, false) AS ingress, coalesce(outside.egress, false) AS egress
     FROM (SELECT * FROM net.service_registry ${chosen}) r LEFT JOIN net.agent_scans a USING (agent_id)
     LEFT JOIN running USING (service, agent_id) LEFT JOIN outside USING (service, agent_id)
     ORDER BY r.service, r.agent_id, r.port, r.protocol`,
    parameters,
  );
  const places = new Map<string, ServiceAtAgent>();
  for (const row of withoutFormerPorts(rows)) addRow(places, row);
  if (query.processes) await addProcesses(store, places, chosen, parameters);
  return [...places.values()];
}

/** Ascending precedence: the highest status and health of a service's ports is that of the service. */
const statusOrder: ServiceStatus[] = ["stale", "discovered", "managed"];
const healthOrder = [null, "healthy", "unknown", "unhealthy"] as const;
const keyOf = (row: QueryRow): string => `${textIn(row, "agent_id")}\n${textIn(row, "service")}`;
const healthIn = (row: QueryRow): CheckHealth | null => healthOrder.find((health) => health === textOrNullIn(row, "health")) ?? null;

/** 0 when the service is gone, else at least 1, even if its pids cannot be read. */
function instancesIn(row: QueryRow): number {
  return booleanIn(row, "present") ? Math.max(1, numberIn(row, "running"), numberIn(row, "instances")) : 0;
}

/** Ports that a running service has left; those that people registered stay. */
function withoutFormerPorts(rows: readonly QueryRow[]): QueryRow[] {
  const running = new Set(rows.filter((row) => booleanIn(row, "present")).map(keyOf));
  return rows.filter((row) => booleanIn(row, "present") || textIn(row, "status") === "managed" || !running.has(keyOf(row)));
}

function addRow(places: Map<string, ServiceAtAgent>, row: QueryRow): void {
  const port: ServicePort = {
    port: numberIn(row, "port") || null,
    protocol: textIn(row, "protocol") || null,
    status: textIn(row, "status") as ServiceStatus,
    method: textIn(row, "method"),
    previousMethod: textOrNullIn(row, "previous_method"),
    confidence: numberIn(row, "confidence"),
    firstSeenAt: isoTimeIn(row, "first_seen"),
    lastSeenAt: isoTimeIn(row, "seen"),
  };
  const place = places.get(keyOf(row));
  if (!place) {
    places.set(keyOf(row), {
      agentId: textIn(row, "agent_id"),
      service: textIn(row, "service"),
      namedBy: textIn(row, "named_by"),
      confidence: port.confidence,
      status: port.status,
      ports: [port],
      instances: instancesIn(row),
      pids: Array.isArray(row["pids"]) ? row["pids"].map(Number) : [],
      exe: textOrNullIn(row, "exe"),
      build: textOrNullIn(row, "build"),
      health: healthIn(row),
      addresses: textsIn(row, "addresses"),
      ingress: booleanIn(row, "ingress"),
      egress: booleanIn(row, "egress"),
      firstSeenAt: port.firstSeenAt,
      lastSeenAt: port.lastSeenAt,
    });
    return;
  }
  place.ports.push(port);
  place.instances = Math.max(place.instances, instancesIn(row));
  if (port.confidence > place.confidence) {
    place.confidence = port.confidence;
    place.namedBy = textIn(row, "named_by");
  }
  const health = healthIn(row);
  if (healthOrder.indexOf(health) > healthOrder.indexOf(place.health)) place.health = health;
  if (statusOrder.indexOf(port.status) > statusOrder.indexOf(place.status)) place.status = port.status;
  place.exe ??= textOrNullIn(row, "exe");
  place.build ??= textOrNullIn(row, "build");
  if (port.firstSeenAt < place.firstSeenAt) place.firstSeenAt = port.firstSeenAt;
  if (port.lastSeenAt > place.lastSeenAt) place.lastSeenAt = port.lastSeenAt;
}

async function addProcesses(
  store: Queryable,
  places: Map<string, ServiceAtAgent>,
  chosen: string,
  parameters: Record<string, string>,
): Promise<void> {
  const one = (column: string): string => `any_value(${column}) AS ${column}`;
  const rows = await store.query(
    `SELECT agent_id, service, pid, start_ticks, max(started) AS started, ${["exe", "build", "build_kind", "command_line", "user_name", "unit"].map(one).join(", ")},
       any_value(user_id) AS user_id, ${["container_id", "container_name", "health", "health_detail"].map(one).join(", ")},
       list_sort(list(DISTINCT protocol || ' ' || ${hostPort}) FILTER (port > 0))[:50] AS listens
     FROM net.service_instances ${chosen} GROUP BY agent_id, service, pid, start_ticks ORDER BY agent_id, service, started, pid`,
    parameters,
  );
  for (const row of rows) {
    const place = places.get(keyOf(row));
    if (!place) continue;
    place.processes ??= [];
    place.processes.push({
      pid: numberIn(row, "pid") || null,
      startedAt: isoTimeOrNullIn(row, "started"),
      exe: textOrNullIn(row, "exe"),
      build: textOrNullIn(row, "build"),
      buildKind: textOrNullIn(row, "build_kind"),
      commandLine: textOrNullIn(row, "command_line"),
      user: textOrNullIn(row, "user_name") ?? (row["user_id"] === null ? null : String(numberIn(row, "user_id"))),
      unit: textOrNullIn(row, "unit"),
      containerId: textOrNullIn(row, "container_id"),
      containerName: textOrNullIn(row, "container_name"),
      listens: textsIn(row, "listens"),
      health: healthIn(row),
      healthDetail: textOrNullIn(row, "health_detail"),
    });
  }
  for (const place of places.values()) place.processes ??= [];
}
