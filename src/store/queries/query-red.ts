/** Rate, errors and durations of requests: sums and percentiles by group, with a series, and the same for the time before. */

import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn, textOrNullIn } from "../tables/queryable.ts";
import {
  percentileIn,
  percentilesSql,
  type RedFilterQuery,
  type RedRange,
  type RedResolution,
  redBuckets,
  redPartsSql,
  redWindow,
  type SqlWithParameters,
} from "./red-parts.ts";

export type RedGroupBy = "service" | "route" | "peer" | "status";

export interface RedQuery extends RedFilterQuery {
  /** Rows are always apart by service, role and protocol: the same request seen at both ends is in two rows, never twice in one. */
  by: RedGroupBy;
  /** From now back. */
  sinceMs: number;
  nowMs: number;
  /** Upper bound of each series; 0 = none. */
  maxPoints: number;
  /** Groups with the most requests are kept. */
  limit: number;
  /** With `before`: costs the same again. */
  compare: boolean;
}

/** Requests that agree in the keys. Times in microseconds; null when nothing was measured, percentiles of queue and first byte also after 200 groups. */
export interface RedGroupRow {
  service: string;
  role: "server" | "client";
  protocol: string;
  /** Whether any of them was read inside TLS. */
  isTls: boolean;
  /** Null unless asked by peer: a service, a name outside, or an address. */
  peer: string | null;
  method: string | null;
  route: string | null;
  status: string | null;
  requests: number;
  /** Of them, those that were read inside TLS. */
  tlsRequests: number;
  errors: number;
  requestBytes: number;
  responseBytes: number;
  meanUs: number | null;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  queueMeanUs: number | null;
  queueP50Us: number | null;
  queueP95Us: number | null;
  /** Share of the time in queue in the duration, 0..1, of the requests whose queue is known. */
  queueRatio: number | null;
  firstByteP50Us: number | null;
  firstByteP95Us: number | null;
  before: { requests: number; errors: number; p95Us: number | null } | null;
  /** Requests in each part of the time, oldest first. */
  points: number[];
  errorPoints: number[];
  /** Null in parts without requests; empty when there are too many groups for it. */
  p95PointsUs: (number | null)[];
}

export interface RedAnswer {
  /** Most requests first. */
  rows: RedGroupRow[];
  /** Groups before the limit. */
  total: number;
  /** The time that the amounts cover: at most `sinceMs`, less when the first row is younger. */
  windowMs: number;
  /** Length of one part of the series; 0 without. */
  bucketMs: number;
  resolution: RedResolution;
}

const groupColumns: Record<RedGroupBy, string[]> = {
  service: [],
  route: ["method", "route"],
  peer: ["who"],
  status: ["status"],
};

/** Percentiles by point are kept for so few groups: each of them costs a group of its own per point. */
const p95PointsMaxGroups = 50;

export async function queryRed(store: Queryable, query: RedQuery): Promise<RedAnswer> {
  const window = await redWindow(store, {
    sinceMs: query.sinceMs,
    nowMs: query.nowMs,
    one: query.service !== undefined,
    before: query.compare,
  });
  const { bucketMs, points } = redBuckets(window, query.nowMs, query.maxPoints);
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
    resolution: window.resolution,
  };
}

const sums = `sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors, sum(request_bytes) AS request_bytes,
  sum(response_bytes) AS response_bytes, sum(duration_us) AS duration_us, sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples,
  coalesce(sum(requests) FILTER (is_tls), 0) AS tls_requests`;

/** The same groups get the same numbers, most requests first. */
function numberedSql(keys: readonly string[], limit: number): string {
  const list = keys.join(", ");
  return `SELECT *, row_number() OVER (ORDER BY requests DESC, ${list}) AS gid, count(*) OVER () AS total
    FROM (SELECT ${list}, ${sums} FROM part GROUP BY ${list}) QUALIFY gid <= ${Math.max(0, Math.floor(limit))}`;
}

/** Rows with the number of their group: joined once by all keys, so that what is unnested later is grouped by numbers alone. */
function numberedPartsSql(keys: readonly string[], columns: string): string {
  return `SELECT g.gid, ${columns} FROM part p JOIN grouped g ON ${keys.map((key) => `g."${key}" = p."${key}"`).join(" AND ")}`;
}

/** What one service did is read once and kept; what all did is read twice, which is cheaper than to keep it. */
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

function groupsIn(rows: readonly QueryRow[]): RedGroupRow[] {
  const groups: RedGroupRow[] = [];
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
        group.queueP50Us = percentileIn(row, "p50");
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

function groupIn(row: QueryRow): RedGroupRow {
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
    queueP50Us: null,
    queueP95Us: null,
    queueRatio: meanUs !== null && meanUs > 0 && queueMeanUs !== null ? Math.min(1, queueMeanUs / meanUs) : null,
    firstByteP50Us: null,
    firstByteP95Us: null,
    before: null,
    points: [],
    errorPoints: [],
    p95PointsUs: [],
  };
}

interface Series {
  parts: SqlWithParameters;
  keys: readonly string[];
  window: RedRange;
  bucketMs: number;
  points: number;
}

async function addPoints(store: Queryable, query: RedQuery, series: Series, groups: RedGroupRow[]): Promise<void> {
  const { parts, keys, window, bucketMs, points } = series;
  const isP95Wanted = groups.length <= p95PointsMaxGroups;
  const point = `greatest(0, least(${points - 1}, (epoch_us(p."time") - ${Math.floor(window.startMs * 1_000)}) // ${bucketMs * 1_000}))`;
  const rows = numberedPartsSql(keys, `${point}::BIGINT AS point, p.requests, p.is_error, p.duration_lo, p.duration_counts`);
  // One number for group and point, so that percentiles need to know of one only.
  const inPoint = `SELECT gid * ${points} + point AS gid, duration_lo, duration_counts FROM (${rows})`;
  const p95 = isP95Wanted ? `LEFT JOIN (${percentilesSql(inPoint, "duration")}) d ON d.gid = s.gid * ${points} + s.point` : "";
  const found = await store.query(
    `WITH ${partSql(query, parts)}, grouped AS MATERIALIZED (${numberedSql(keys, query.limit)})
     SELECT s.gid, s.point, s.requests, s.errors${isP95Wanted ? ", d.p95" : ""} FROM (
       SELECT gid, point, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors FROM (${rows}) GROUP BY gid, point
     ) s ${p95}`,
    parts.parameters,
  );
  for (const group of groups) {
    group.points = new Array<number>(points).fill(0);
    group.errorPoints = new Array<number>(points).fill(0);
    if (isP95Wanted) group.p95PointsUs = new Array<null>(points).fill(null);
  }
  for (const row of found) {
    const group = groups[numberIn(row, "gid") - 1];
    const at = numberIn(row, "point");
    if (!group) continue;
    group.points[at] = numberIn(row, "requests");
    group.errorPoints[at] = numberIn(row, "errors");
    if (isP95Wanted) group.p95PointsUs[at] = percentileIn(row, "p95", 0);
  }
}

async function addBefore(
  store: Queryable,
  query: RedQuery,
  window: RedRange,
  keys: readonly string[],
  groups: RedGroupRow[],
): Promise<void> {
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
