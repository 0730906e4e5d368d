/** Rate, errors and durations of requests: sums and percentiles by group, with a series, and the same for the period before. */

import type { RedFact, RedFacts, RedGrouping, RedRequest } from "../../model/red.ts";
import type { Resolved } from "../../model/services.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn, textOrNullIn } from "../tables/queryable.ts";
import {
  percentileIn,
  percentilesSql,
  type RedRange,
  type RedResolution,
  redBuckets,
  redPartsSql,
  redWindow,
  type SqlWithParameters,
} from "./red-parts.ts";

export interface RedQuery extends Resolved<RedRequest> {
  nowMs: number;
}

export interface RedAnswer extends RedFacts {
  resolution: RedResolution;
}

/** Columns to group by in addition to service, role and protocol. */
const groupColumns: Record<RedGrouping, string[]> = {
  service: [],
  route: ["method", "route"],
  peer: ["who"],
  status: ["status"],
};

export async function queryRed(store: Queryable, query: RedQuery): Promise<RedAnswer> {
  const window = await redWindow(store, {
    sinceMs: query.sinceMs,
    nowMs: query.nowMs,
    one: query.service !== undefined,
    before: query.compare,
  });
  const { bucketMs, points, settledPoints } = redBuckets(window, query.nowMs, query.maxPoints);
  const keys = ["service", "role", "protocol", ...groupColumns[query.by]];
  const parts = redPartsSql(window, query, query.by === "peer");
  const found = await store.query(groupsSql(query, parts, keys), parts.parameters);
  const groups = groupsIn(found);
  if (groups.length > 0) {
    if (points > 0) await addPoints(store, query, { parts, keys, window, bucketMs, points }, groups);
    if (query.compare) await addBefore(store, query, window, keys, groups);
  }
  return {
    rows: groups,
    total: numberIn(found[0] ?? {}, "total"),
    windowMs: Math.min(window.coveredMs, query.sinceMs),
    bucketMs,
    settledPoints,
    resolution: window.resolution,
  };
}

const sums = `sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors, sum(request_bytes) AS request_bytes,
  sum(response_bytes) AS response_bytes, sum(duration_us) AS duration_us, sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples,
  coalesce(sum(requests) FILTER (is_tls), 0) AS tls_requests`;

/** Numbers groups by requests, most first. Equal groups get equal numbers in every statement. */
function numberedSql(keys: readonly string[], limit: number): string {
  const list = keys.join(", ");
  return `SELECT *, row_number() OVER (ORDER BY requests DESC, ${list}) AS gid, count(*) OVER () AS total
    FROM (SELECT ${list}, ${sums} FROM part GROUP BY ${list}) QUALIFY gid <= ${Math.max(0, Math.floor(limit))}`;
}

/** Rows with the number of their group: one join over all keys, so that later steps group by number. */
function numberedPartsSql(keys: readonly string[], columns: string): string {
  return `SELECT g.gid, ${columns} FROM part p JOIN grouped g ON ${keys.map((key) => `g."${key}" = p."${key}"`).join(" AND ")}`;
}

/** Rows of one service are read once and materialised. Rows of all services are read twice, which costs less than materialising them. */
function partSql({ service }: RedQuery, { sql }: SqlWithParameters): string {
  return `part AS ${service === undefined ? "NOT MATERIALIZED" : "MATERIALIZED"} (${sql})`;
}

/** Up to three rows per group, one for each histogram. */
function groupsSql(query: RedQuery, parts: SqlWithParameters, keys: readonly string[]): string {
  const columns = ["duration", "queue", "first_byte"].flatMap((name) => [`p.${name}_lo`, `p.${name}_counts`]);
  return `WITH ${partSql(query, parts)}, grouped AS MATERIALIZED (${numberedSql(keys, query.limit)})
    SELECT g.*, d.* EXCLUDE (gid) FROM grouped g LEFT JOIN (${percentilesSql(numberedPartsSql(keys, columns.join(", ")), "all")}) d ON d.gid = g.gid
    ORDER BY g.gid`;
}

function groupsIn(rows: readonly QueryRow[]): RedFact[] {
  const groups: RedFact[] = [];
  for (const row of rows) {
    const index = numberIn(row, "gid") - 1;
    const group = (groups[index] ??= groupIn(row));
    switch (numberOrNullIn(row, "kind")) {
      case 0:
        group.p50Us = percentileIn(row, "p50");
        group.p95Us = percentileIn(row, "p95");
        group.p99Us = percentileIn(row, "p99");
        break;
      case 1:
        group.queueP95Us = percentileIn(row, "p95");
        break;
      case 2:
        group.firstByteP50Us = percentileIn(row, "p50");
        group.firstByteP95Us = percentileIn(row, "p95");
        break;
      default:
        break;
    }
  }
  return groups;
}

function groupIn(row: QueryRow): RedFact {
  const requests = numberIn(row, "requests");
  const tlsRequests = numberIn(row, "tls_requests");
  const queueSamples = numberIn(row, "queue_samples");
  const meanUs = requests > 0 ? numberIn(row, "duration_us") / requests : null;
  const queueMeanUs = queueSamples > 0 ? numberIn(row, "queue_us") / queueSamples : null;
  return {
    service: textIn(row, "service"),
    role: textIn(row, "role") === "client" ? "client" : "server",
    protocol: textIn(row, "protocol"),
    isTls: tlsRequests > 0,
    peer: textOrNullIn(row, "who"),
    method: textOrNullIn(row, "method"),
    route: textOrNullIn(row, "route"),
    status: textOrNullIn(row, "status"),
    requests,
    tlsRequests,
    errors: numberIn(row, "errors"),
    requestBytes: numberIn(row, "request_bytes"),
    responseBytes: numberIn(row, "response_bytes"),
    meanUs,
    p50Us: null,
    p95Us: null,
    p99Us: null,
    queueMeanUs,
    queueP95Us: null,
    firstByteP50Us: null,
    firstByteP95Us: null,
    before: null,
    points: [],
  };
}

interface Series {
  parts: SqlWithParameters;
  keys: readonly string[];
  window: RedRange;
  bucketMs: number;
  points: number;
}

async function addPoints(store: Queryable, query: RedQuery, series: Series, groups: RedFact[]): Promise<void> {
  const { parts, keys, window, bucketMs, points } = series;
  const point = `greatest(0, least(${points - 1}, (epoch_us(p."time") - ${Math.floor(window.startMs * 1_000)}) // ${bucketMs * 1_000}))`;
  const rows = numberedPartsSql(keys, `${point}::BIGINT AS point, p.requests`);
  const found = await store.query(
    `WITH ${partSql(query, parts)}, grouped AS MATERIALIZED (${numberedSql(keys, query.limit)})
     SELECT gid, point, sum(requests) AS requests FROM (${rows}) GROUP BY gid, point`,
    parts.parameters,
  );
  for (const group of groups) group.points = new Array<number>(points).fill(0);
  for (const row of found) {
    const group = groups[numberIn(row, "gid") - 1];
    if (group) group.points[numberIn(row, "point")] = numberIn(row, "requests");
  }
}

async function addBefore(store: Queryable, query: RedQuery, window: RedRange, keys: readonly string[], groups: RedFact[]): Promise<void> {
  const range = { ...window, startMs: window.startMs - query.sinceMs, endMs: window.startMs };
  const parts = redPartsSql(range, query, query.by === "peer");
  const rows = numberedPartsSql(keys, "p.duration_lo, p.duration_counts");
  const found = await store.query(
    `WITH ${partSql(query, parts)}, grouped AS MATERIALIZED (${numberedSql(keys, 10 * query.limit)})
     SELECT g.*, d.p95 FROM grouped g LEFT JOIN (${percentilesSql(rows, "duration")}) d ON d.gid = g.gid`,
    parts.parameters,
  );
  const keyOf = (values: (string | null)[]): string => JSON.stringify(values);
  const before = new Map(found.map((row) => [keyOf(keys.map((key) => textOrNullIn(row, key))), row]));
  for (const group of groups) {
    const own: Record<string, string | null> = { ...group, who: group.peer } as unknown as Record<string, string | null>;
    const row = before.get(keyOf(keys.map((key) => own[key] ?? null)));
    if (row) group.before = { requests: numberIn(row, "requests"), errors: numberIn(row, "errors"), p95Us: percentileIn(row, "p95", 0) };
  }
}
