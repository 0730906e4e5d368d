/** Calls between services, from spans: a call is a span whose parent belongs to another service. Times are never used to infer calls. */

import type { SpanEdgeFact, SpanEdgeFacts, SpanEdgesRequest } from "../../model/edges.ts";
import type { Resolved } from "../../model/services.ts";
import { isoTimeIn, numberIn, numberOrNullIn, type Queryable, type QueryParameter, type QueryRow, textIn } from "../tables/queryable.ts";
import { notRolledUpSql, oldestSql, percentileIn, percentilesSql, type RedResolution, rolledUpSql } from "./red-parts.ts";
import { namedFilter } from "./service-filter.ts";

/** `sinceMs` is rounded to whole minutes, or to ten minutes for long windows. */
export interface SpanEdgesQuery extends Resolved<SpanEdgesRequest> {
  nowMs: number;
}

const minuteMs = 60_000;
const stepMs: Record<RedResolution, number> = { raw: minuteMs, "1m": minuteMs, "10m": 10 * minuteMs };
/** Windows longer than this read the ten-minute roll-up. */
const minutesUpToMs = 20 * minuteMs;
const percentileEdges = 5_000;
const edgesMax = 100_000;
/** Sender clocks may be ahead by this much. */
const clockAheadMs = 60 * minuteMs;

export async function querySpanEdges(store: Queryable, query: SpanEdgesQuery): Promise<SpanEdgeFacts> {
  const range = await rangeOf(store, query);
  const { startMs } = range;
  const { sql, parameters } = partsSql(range, query);
  const percentiles = Math.max(0, Math.floor(query.percentiles ?? percentileEdges));
  const rows = await store.query(
    `WITH part AS MATERIALIZED (${sql}),
     grouped AS MATERIALIZED (
       SELECT client, server, sum(requests) AS requests, sum(errors) AS errors, min(first_seen) AS first_seen, max(last_seen) AS last_seen,
         arg_max(protocol, requests) AS protocol, row_number() OVER (ORDER BY sum(requests) DESC, client, server) AS gid
       FROM part GROUP BY client, server QUALIFY gid <= ${edgesMax}
     )
     SELECT g.*, d.* EXCLUDE (gid) FROM grouped g LEFT JOIN (${percentilesSql(
       `SELECT g.gid, p.duration_lo, p.duration_counts FROM part p JOIN grouped g ON g.client = p.client AND g.server = p.server WHERE g.gid <= ${percentiles}`,
       "duration",
     )}) d ON d.gid = g.gid ORDER BY g.gid`,
    parameters,
  );
  const edges = rows.map(edgeIn);
  const firstMs = edges.reduce((first, { firstSeenAt }) => Math.min(first, Date.parse(firstSeenAt)), Number.POSITIVE_INFINITY);
  const coveredMs = Number.isFinite(firstMs) ? Math.max(1_000, query.nowMs - Math.max(firstMs, startMs)) : query.sinceMs;
  return { edges, windowMs: coveredMs };
}

interface Range {
  startMs: number;
  resolution: RedResolution;
  /** Sequence up to which raw rows are rolled up. */
  rolledUp: number;
}

/** The finest resolution that is cheap for this window, coarser where retention removed finer rows. */
async function rangeOf(store: Queryable, { sinceMs, nowMs }: SpanEdgesQuery): Promise<Range> {
  const [row = {}] = await store.query(
    `SELECT ${oldestSql("raw.span_edge", '"time"')} AS raw, ${oldestSql("rollup.span_edge_1m", "bucket")} AS "1m", ${oldestSql("rollup.span_edge_10m", "bucket")} AS "10m",
       ${rolledUpSql("span_edge_1m")} AS done_1m, ${rolledUpSql("span_edge_10m")} AS done_10m`,
  );
  const startMs = nowMs - sinceMs;
  const oldestMs = (resolution: RedResolution): number => (numberOrNullIn(row, resolution) ?? Number.POSITIVE_INFINITY) / 1_000;
  const order: RedResolution[] = sinceMs <= minutesUpToMs ? ["raw", "1m", "10m"] : ["10m"];
  const resolution = order.reduce((best, other) =>
    oldestMs(best) > startMs && oldestMs(other) < oldestMs(best) - stepMs[other] ? other : best,
  );
  return {
    startMs: Math.floor(startMs / stepMs[resolution]) * stepMs[resolution],
    resolution,
    rolledUp: numberOrNullIn(row, `done_${resolution}`) ?? 0,
  };
}

/** Combines the roll-up with raw rows that it has not consumed. One statement reads one snapshot, so every call counts exactly once. */
function partsSql(
  { startMs, resolution, rolledUp }: Range,
  { agentIds, service, among, nowMs }: SpanEdgesQuery,
): { sql: string; parameters: Record<string, QueryParameter> } {
  const parameters: Record<string, QueryParameter> = {};
  let where = "";
  if (service !== undefined) {
    const filter = namedFilter(service);
    where += ` AND (client IN (${filter.list}) OR server IN (${filter.list}))`;
    Object.assign(parameters, filter.parameters);
  }
  if (among !== undefined) {
    const pairs = among.map((_, index) => `($client${index}, $server${index})`);
    for (const [index, { client, server }] of among.entries()) {
      parameters[`client${index}`] = client;
      parameters[`server${index}`] = server;
    }
    where += pairs.length === 0 ? " AND false" : ` AND (client, server) IN (${pairs.join(", ")})`;
  }
  if (agentIds !== undefined) {
    const ids = agentIds.map((_, index) => `$agent${index}`);
    for (const [index, id] of agentIds.entries()) parameters[`agent${index}`] = id;
    where += ` AND source IN (SELECT source FROM internal.sources WHERE agent_id IN (${ids.join(", ") || "NULL"}))`;
  }
  const inTime = (column: string): string =>
    `${column} BETWEEN make_timestamp(${Math.floor(startMs * 1_000)}) AND make_timestamp(${Math.floor((nowMs + clockAheadMs) * 1_000)}) ${where}`;
  const keys = "client, server, protocol, duration_lo, duration_counts";
  const raw = `SELECT ${keys}, requests, errors, first_seen, last_seen FROM raw.span_edge WHERE ${inTime('"time"')}`;
  if (resolution === "raw") return { sql: raw, parameters };
  const name = `span_edge_${resolution}`;
  const sql = `SELECT ${keys}, requests_sum AS requests, errors_sum AS errors, first_seen_min AS first_seen, last_seen_max AS last_seen
    FROM rollup.${name} WHERE ${inTime("bucket")}
    UNION ALL ${raw} AND ${notRolledUpSql(name, rolledUp)}`;
  return { sql, parameters };
}

function edgeIn(row: QueryRow): SpanEdgeFact {
  return {
    client: textIn(row, "client"),
    server: textIn(row, "server"),
    protocol: textIn(row, "protocol"),
    requests: numberIn(row, "requests"),
    errors: numberIn(row, "errors"),
    p50Us: percentileIn(row, "p50", 0),
    p95Us: percentileIn(row, "p95", 0),
    p99Us: percentileIn(row, "p99", 0),
    firstSeenAt: isoTimeIn(row, "first_seen"),
    lastSeenAt: isoTimeIn(row, "last_seen"),
  };
}
