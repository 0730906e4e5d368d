import type { EdgeEnd, EdgeFact, EdgePageFacts, EdgePageRequest, EdgesRequest, NetworkFacts } from "../../model/edges.ts";
import type { Resolved } from "../../model/services.ts";
import { classifySql, evidenceBits } from "../discovery/classify-edges.ts";
import { bucketMinutes, failures, lostSightAfterMs, settleAfterMs } from "../discovery/discovery-settings.ts";
import { coarser } from "../discovery/maintain-discovery.ts";
import {
  isoTimeIn,
  numberIn,
  numberOrNullIn,
  type QueryRow,
  textIn,
  textOrNullIn,
  textsIn,
  type VisitableStore,
} from "../tables/queryable.ts";
import { EdgePageReader, edgePageSql } from "./edge-page.ts";
import { namedFilter } from "./service-filter.ts";

export interface EdgesQuery extends Resolved<EdgesRequest> {
  nowMs: number;
  /** Return only the busiest nodes and the edges between them. */
  page?: EdgePageRequest;
  /** The name under which the colony's database is attached. */
  database: string;
}

/** Bounds the memory of one answer. */
const edgesMax = 100_000;

export async function queryEdges(store: VisitableStore, query: EdgesQuery): Promise<NetworkFacts> {
  const startMs = windowStartMs(query.nowMs, query.sinceMs);
  const startUs = Math.floor(startMs * 1_000);
  const nowUs = Math.floor(query.nowMs * 1_000);
  const parts = partsSql(query.database, startUs, nowUs, query.agentIds, kindsOfFailure);
  const { edges, page } = query.page ? await readPage(store, query.database, parts, query.page) : await readEdges(store, query, parts);
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
    edges: edges.slice(0, edgesMax).sort((a, b) => b.connections - a.connections),
    cutEdges: Math.max(0, edges.length - edgesMax),
    ...(page ? { page } : {}),
    skippedConnections: numberIn(left ?? {}, "skipped"),
    skippedAgentIds: textsIn(left ?? {}, "skipped_agents"),
    unsettledConnections: numberIn(left ?? {}, "unsettled"),
    windowMs: Math.max(60_000, Math.min(query.nowMs - startMs, watchedMs)),
  };
}

interface ReadEdges {
  edges: EdgeFact[];
  page?: EdgePageFacts;
}

/** Reads one edge beyond the limit, to detect that there are more. */
async function readEdges(store: VisitableStore, { database, service }: EdgesQuery, parts: string): Promise<ReadEdges> {
  const filter = service === undefined ? undefined : namedFilter(service);
  const wanted =
    filter === undefined
      ? ""
      : `WHERE (client_kind = 'service' AND client IN (${filter.list})) OR (server_kind = 'service' AND server IN (${filter.list}))`;
  const parameters = filter?.parameters ?? {};
  const select = `${edgeColumns} FROM (${edgesSql(database, parts, kindsOfFailure)}) ${wanted}`;
  const reader = new EdgeReader();
  const read = async (sql: string): Promise<EdgeFact[]> => {
    const edges: EdgeFact[] = [];
    await store.visit(sql, parameters, (row) => edges.push(reader.read(row)));
    return edges;
  };
  const edges = await read(`SELECT ${select} LIMIT ${edgesMax + 1}`);
  if (edges.length <= edgesMax) return { edges };
  // Sorting many wide rows costs as much as computing them; sort only if the limit drops some.
  return { edges: await read(`SELECT ${select} ORDER BY connections DESC, client, server, server_port LIMIT ${edgesMax + 1}`) };
}

async function readPage(store: VisitableStore, database: string, parts: string, page: EdgePageRequest): Promise<ReadEdges> {
  const edges: EdgeFact[] = [];
  const reader = new EdgeReader();
  const rest = new EdgePageReader();
  const explain = (relation: string): string => withFirstUse(database, relation);
  await store.visit(
    edgePageSql(page, { database, edges: edgeAmountsSql(database, parts, kindsOfFailure), edgeColumns, explain }),
    undefined,
    (row) => {
      if (!rest.read(row)) edges.push(reader.read(row));
    },
  );
  return { edges, page: rest.page() };
}

/** Numbers as DOUBLE and lists as text: reading 128-bit sums and lists of tens of thousands of rows takes longer than computing them. */
const edgeColumns = [
  "class, protocol, client_kind, client, server_kind, server, client_address, server_address, first_build, resolved_name, resolution_method, provider, product",
  ...["client_agents", "server_agents"].map(
    (name) => `CASE WHEN len(${name}) = 1 THEN ${name}[1] ELSE array_to_string(list_sort(list_distinct(${name})), ',') END AS ${name}`,
  ),
  ..."server_port confidence evidence opened connections open failures to_server to_client retransmits rtt_sum rtt_count"
    .split(" ")
    .map((name) => `${name}::DOUBLE AS ${name}`),
  ...["first_seen", "last_seen"].map((name) => `epoch_us(${name})::DOUBLE AS ${name}`),
].join(", ");

/** Start of the stored interval that contains the requested time. */
export function windowStartMs(nowMs: number, sinceMs: number): number {
  const hours = sinceMs / 3_600_000;
  const level = coarser.findLast(({ afterHours }) => hours >= afterHours);
  const stepMs = level?.interval === "1 DAY" ? 86_400_000 : level?.interval === "1 HOUR" ? 3_600_000 : bucketMinutes * 60_000;
  return Math.floor((nowMs - sinceMs) / stepMs) * stepMs;
}

/** Answers need only the sum of failures; summing the unused columns is a large part of the cost. */
const kindsOfFailure = ["failures"] as const;

/** Amounts per view: totals plus what live connections have added since. */
export function partsSql(
  database: string,
  startUs: number,
  nowUs: number | "now",
  agentIds?: readonly string[],
  failed: readonly string[] = failures,
): string {
  const net = `"${database}".net`;
  const chosen =
    agentIds === undefined ? "" : `WHERE v.agent_id IN (${["", ...agentIds].map((id) => `'${id.replaceAll("'", "''")}'`).join(", ")})`;
  const now = nowUs === "now" ? "now()::TIMESTAMP" : `make_timestamp(${nowUs})`;
  const isOpen = `state = 'open' AND updated_at > ${now} - INTERVAL ${lostSightAfterMs} MILLISECOND`;
  const lastRtt = "pend_rtt_count = 0 AND state = 'open' AND rtt_us IS NOT NULL";
  // Sums of BIGINT sums are 128 bits wide and cost three times as much. DOUBLE is exact up to 2^53.
  return `
    SELECT v.*, p.* EXCLUDE (view_id) FROM (
      SELECT view_id, ${["opened", "closed", "open", "bytes_out", "bytes_in", "retransmits", "rtt_sum", "rtt_count", ...failed].map((name) => `sum(${name})::DOUBLE AS ${name}`).join(", ")},
        min(first_seen) AS first_seen, max(last_seen) AS last_seen
      FROM (
        SELECT view_id, opened, closed, 0 AS open, bytes_out, bytes_in, retransmits, rtt_sum, rtt_count, ${failed.join(", ")}, first_seen, last_seen
        FROM ${net}.edge_totals WHERE bucket >= make_timestamp(${startUs})
        UNION ALL
        SELECT view_id, pend_opened, pend_closed, CASE WHEN ${isOpen} THEN connections ELSE 0 END, pend_out, pend_in, pend_retransmits,
          CASE WHEN ${lastRtt} THEN rtt_us ELSE pend_rtt_sum END, CASE WHEN ${lastRtt} THEN 1 ELSE pend_rtt_count END,
          ${failed.map((name) => `pend_${name}`).join(", ")}, began, last_seen
        FROM ${net}.connection_sides WHERE (${isOpen}) OR last_seen >= make_timestamp(${startUs})
      ) GROUP BY view_id
    ) p JOIN ${net}.edge_views v USING (view_id) ${chosen}`;
}

/** Edges from views: one row per client, server, protocol and port. The two ends' views of the same connections are matched, not added. */
export function edgesSql(database: string, parts: string, failed: readonly string[] = failures): string {
  return withFirstUse(
    database,
    `(SELECT e.*, r.resolved_name, r.resolution_method, r.provider, r.product FROM (${edgeAmountsSql(database, parts, failed)}) e
      LEFT JOIN "${database}".net.endpoint_resolution r ON r.ip_address = CASE class WHEN 'INGRESS' THEN client WHEN 'EGRESS' THEN server END)`,
  );
}

/** Limit on the addresses listed per end; a service behind a load balancer has several. */
const endAddressesMax = 5;

function someOf(address: string): string {
  return `array_to_string(list_sort(list_distinct(list(${address}) FILTER (${address} <> '')))[:${endAddressesMax}], ',')`;
}

/** Edges as observed, without facts from other tables. */
function edgeAmountsSql(database: string, parts: string, failed: readonly string[]): string {
  const larger = (expression: string): string =>
    `greatest(coalesce(sum(${expression}) FILTER (role = 'client'), 0), coalesce(sum(${expression}) FILTER (role = 'server'), 0))`;
  const client = (own: string, peer: string): string => `CASE WHEN role = 'client' THEN ${own} ELSE ${peer} END`;
  const server = (own: string, peer: string): string => `CASE WHEN role = 'server' THEN ${own} ELSE ${peer} END`;
  return `
    SELECT class, protocol, server_port, ${client("'service'", "peer_kind")} AS client_kind, ${client("service", "peer_name")} AS client,
      ${server("'service'", "peer_kind")} AS server_kind, ${server("service", "peer_name")} AS server,
      max(confidence) AS confidence, bit_or(evidence) AS evidence, ${larger("opened")} AS opened, ${larger("greatest(closed, 0) + open")} AS connections,
      ${failed.map((name) => `${larger(name)} AS ${name}`).join(", ")}, ${larger("open")} AS open, ${larger(client("bytes_out", "bytes_in"))} AS to_server, ${larger(client("bytes_in", "bytes_out"))} AS to_client,
      sum(retransmits) AS retransmits, sum(rtt_sum) AS rtt_sum, sum(rtt_count) AS rtt_count, min(first_seen) AS first_seen, max(last_seen) AS last_seen,
      ${someOf(client("own_address", "peer_address"))} AS client_address, ${someOf(server("own_address", "peer_address"))} AS server_address,
      list(${client("agent_id", "peer_agent")}) AS client_agents, list(${server("agent_id", "peer_agent")}) AS server_agents
    FROM (${classifySql(database, parts)}) GROUP BY 1, 2, 3, 4, 5, 6, 7`;
}

/** Adds when a service first used an external destination, and with which build. */
function withFirstUse(database: string, edges: string): string {
  const net = `"${database}".net`;
  return `
    SELECT e.* REPLACE (least(e.first_seen, coalesce(u.first_seen, e.first_seen)) AS first_seen), u.build AS first_build
    FROM ${edges} e
    LEFT JOIN (
      SELECT e.service, n.ip_address, n.endpoint_type, CASE WHEN n.endpoint_type = 'ingress' THEN e.service_port ELSE n.port END AS port, n.protocol,
        min(e.first_seen) AS first_seen, arg_min(e.first_build, e.first_seen) AS build
      FROM ${net}.service_endpoints e JOIN ${net}.network_endpoints n ON n.id = e.endpoint_id GROUP BY ALL
    ) u ON u.endpoint_type = lower(e.class) AND u.port = e.server_port AND u.protocol = e.protocol
      AND u.service = CASE WHEN e.class = 'INGRESS' THEN e.server ELSE e.client END AND u.ip_address = CASE WHEN e.class = 'INGRESS' THEN e.client ELSE e.server END`;
}

/** Converts rows to edges. Equal ends and evidence lists share one object: edges are many, distinct ends few. */
class EdgeReader {
  readonly #ends = new Map<string, EdgeEnd>();
  readonly #evidences = new Map<number, string[]>();
  /** Timestamps by value: one scan sets the last-seen time of many edges. */
  readonly #times = new Map<number, string>();

  read(row: QueryRow): EdgeFact {
    const rttCount = numberIn(row, "rtt_count");
    return {
      class: textIn(row, "class") as EdgeFact["class"],
      confidence: numberIn(row, "confidence"),
      evidence: this.#evidenceOf(numberIn(row, "evidence")),
      protocol: textIn(row, "protocol"),
      serverPort: numberIn(row, "server_port"),
      client: this.#endOf(row, "client"),
      server: this.#endOf(row, "server"),
      connections: numberIn(row, "connections"),
      openConnections: numberIn(row, "open"),
      opened: numberIn(row, "opened"),
      failures: numberIn(row, "failures"),
      bytesToServer: numberIn(row, "to_server"),
      bytesToClient: numberIn(row, "to_client"),
      rttUs: rttCount > 0 ? Math.round(numberIn(row, "rtt_sum") / rttCount) : null,
      retransmits: numberOrNullIn(row, "retransmits"),
      firstSeenAt: this.#timeOf(row, "first_seen"),
      lastSeenAt: this.#timeOf(row, "last_seen"),
      firstBuild: textOrNullIn(row, "first_build"),
    };
  }

  #endOf(row: QueryRow, end: "client" | "server"): EdgeEnd {
    const kind = textIn(row, `${end}_kind`) as EdgeEnd["kind"];
    const name = textIn(row, end);
    const address = textIn(row, `${end}_address`);
    const agents = textIn(row, `${end}_agents`);
    const key = `${kind}\n${name}\n${address}\n${agents}`;
    const known = this.#ends.get(key);
    if (known) return known;
    const agentIds = agents.split(",").filter((id) => id !== "");
    const made: EdgeEnd = {
      kind,
      name,
      addresses: kind === "external" || address === "" ? [] : address.split(","),
      agentIds: kind === "host" && agentIds.length === 0 ? [name] : agentIds,
      resolved: kind === "external" ? resolvedIn(row) : null,
    };
    this.#ends.set(key, made);
    return made;
  }

  #timeOf(row: QueryRow, name: string): string {
    const atUs = numberIn(row, name);
    const known = this.#times.get(atUs);
    if (known !== undefined) return known;
    const text = isoTimeIn(row, name);
    this.#times.set(atUs, text);
    return text;
  }

  #evidenceOf(bits: number): string[] {
    const known = this.#evidences.get(bits);
    if (known) return known;
    const names = Object.entries(evidenceBits)
      .filter(([, bit]) => (bits & bit) > 0)
      .map(([name]) => name);
    this.#evidences.set(bits, names);
    return names;
  }
}

function resolvedIn(row: QueryRow): EdgeEnd["resolved"] {
  const name = textOrNullIn(row, "resolved_name");
  if (name === null) return null;
  return {
    name,
    method: textIn(row, "resolution_method"),
    provider: textOrNullIn(row, "provider"),
    product: textOrNullIn(row, "product"),
  };
}
