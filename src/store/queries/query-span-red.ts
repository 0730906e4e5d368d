/** Rate, errors and durations by spans: sums, percentiles and histograms of any time, from the counts made when spans arrived. */

import type { SparseHistogram } from "../../base/latency-histogram.ts";
import type { SpanRedFact, SpanRedFacts } from "../../model/red.ts";
import type { ServiceFilter } from "../../model/services.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryParameter, type QueryRow, textIn, textOrNullIn } from "../tables/queryable.ts";
import { notRolledUpSql, oldestSql, percentileIn, percentilesSql, type RedResolution, rolledUpSql } from "./red-parts.ts";
import { namedFilter } from "./service-filter.ts";

export type SpanRedGroupBy = "route" | "status" | "version";

export interface SpanRedQuery {
  /** Milliseconds since 1970. Whole windows of 10 s, 1 min or 10 min are read, see `SpanRedAnswer`. */
  startMs: number;
  /** Exclusive. */
  endMs: number;
  /** Keys to group by, in addition to service, role and protocol. */
  by: readonly SpanRedGroupBy[];
  service?: ServiceFilter;
  role?: SpanRedFact["role"];
  /** Excludes internal spans. Default false. */
  onlyRequests?: boolean;
  /** Substring of `GET /users/{id}`, case-insensitive. */
  route?: string;
  status?: string;
  version?: string;
  agentIds?: readonly string[];
  /** Keeps the groups with the most requests. */
  limit: number;
  /** Returns the histograms of the first 200 groups. Default false. */
  histograms?: boolean;
  /** Number of series steps, for the first 50 groups. Default 0: no series. */
  points?: number;
}

export interface SpanRedRow extends SpanRedFact {
  version: string | null;
  /** Number of stored spans. */
  spans: number;
  /** Buckets of `fineLayout`; null unless requested. */
  histogram: SparseHistogram | null;
  errorPoints: number[];
}

export interface SpanRedAnswer extends SpanRedFacts {
  rows: SpanRedRow[];
  resolution: RedResolution;
}

/** Rows without routes are few, and enough for most queries. */
type Table = "span_red" | "span_service";

function tableOf({ by, route, status, version }: SpanRedQuery): Table {
  return by.length === 0 && route === undefined && status === undefined && version === undefined ? "span_service" : "span_red";
}

const minuteMs = 60_000;
const stepMs: Record<RedResolution, number> = { raw: 10_000, "1m": minuteMs, "10m": 10 * minuteMs };
/** Longest time that is read at a resolution: for one service and for all, with and without routes. */
const maxBackMs: Record<Table, Record<"one" | "all", [RedResolution, number][]>> = {
  span_red: {
    one: [
      ["raw", 15 * minuteMs],
      ["1m", 45 * minuteMs],
    ],
    all: [
      ["raw", 6 * minuteMs],
      ["1m", 20 * minuteMs],
    ],
  },
  span_service: {
    one: [
      ["raw", 30 * minuteMs],
      ["1m", 180 * minuteMs],
    ],
    all: [
      ["raw", 6 * minuteMs],
      ["1m", 30 * minuteMs],
    ],
  },
};
const histogramGroups = 200;
const seriesGroups = 50;

const groupColumns: Record<SpanRedGroupBy, string[]> = { route: ["method", "route"], status: ["status"], version: ["version"] };

export async function querySpanRed(store: Queryable, query: SpanRedQuery): Promise<SpanRedAnswer> {
  const range = await rangeOf(store, query);
  const { rolledUp: _, ...times } = range;
  const keys = ["service", "role", "protocol", ...query.by.flatMap((name) => groupColumns[name])];
  const { sql, parameters } = partsSql(range, query);
  const part = `part AS ${query.service === undefined ? "NOT MATERIALIZED" : "MATERIALIZED"} (${sql}),
    grouped AS MATERIALIZED (${groupedSql(keys, query.limit)})`;
  const numbered = (columns: string): string =>
    `SELECT g.gid, ${columns} FROM part p JOIN grouped g ON ${keys.map((key) => `g."${key}" IS NOT DISTINCT FROM p."${key}"`).join(" AND ")}`;
  const rows = await store.query(
    `WITH ${part} SELECT g.*, d.* EXCLUDE (gid) FROM grouped g
     LEFT JOIN (${percentilesSql(numbered("p.duration_lo, p.duration_counts"), "duration")}) d ON d.gid = g.gid ORDER BY g.gid`,
    parameters,
  );
  const answer = { rows: rows.map(groupIn), total: numberIn(rows[0] ?? {}, "total"), ...times };
  if (query.histograms && rows.length > 0) await addHistograms(store, answer, part, numbered, parameters);
  const points = Math.floor(query.points ?? 0);
  if (points > 0 && rows.length > 0) await addPoints(store, answer, part, numbered, parameters, points);
  return answer;
}

type Range = Pick<SpanRedAnswer, "startMs" | "endMs" | "resolution" | "coveredMs"> & { rolledUp: number };

/** The finest resolution that is cheap for this window, coarser where retention removed finer rows. */
async function rangeOf(store: Queryable, query: SpanRedQuery): Promise<Range> {
  const { startMs, endMs, service } = query;
  const table = tableOf(query);
  const [row = {}] = await store.query(
    `SELECT ${oldestSql(`raw.${table}`, '"time"')} AS raw, ${oldestSql(`rollup.${table}_1m`, "bucket")} AS "1m", ${oldestSql(`rollup.${table}_10m`, "bucket")} AS "10m",
       ${rolledUpSql(`${table}_1m`)} AS done_1m, ${rolledUpSql(`${table}_10m`)} AS done_10m`,
  );
  const order: RedResolution[] = ["raw", "1m", "10m"];
  const oldestMs = (resolution: RedResolution): number => (numberOrNullIn(row, resolution) ?? Number.POSITIVE_INFINITY) / 1_000;
  const wanted = maxBackMs[table][service === undefined ? "all" : "one"].find(([, maxMs]) => endMs - startMs <= maxMs)?.[0] ?? "10m";
  // Every resolution includes raw rows that are not rolled up, so a coarser table only helps if it reaches back further by more than its
  // step.
  const resolution = order
    .slice(order.indexOf(wanted))
    .reduce((best, other) => (oldestMs(best) > startMs && oldestMs(other) < oldestMs(best) - stepMs[other] ? other : best));
  const step = stepMs[resolution];
  const fromMs = Math.floor(startMs / step) * step;
  // A roll-up's bucket begins at most one step before its first row.
  const rawMs = oldestMs("raw");
  const firstMs = Math.min(...order.map((name) => (oldestMs(name) + stepMs[name] > rawMs ? rawMs : oldestMs(name))));
  return {
    startMs: fromMs,
    coveredMs: Math.max(stepMs.raw, endMs - Math.max(fromMs, Number.isFinite(firstMs) ? firstMs : fromMs)),
    endMs: Math.ceil(endMs / step) * step,
    resolution,
    rolledUp: numberOrNullIn(row, `done_${resolution}`) ?? 0,
  };
}

const columnsOf: Record<Table, string> = {
  span_red: "source, service, role, protocol, method, route, status, is_error, version, duration_lo, duration_counts",
  span_service: "source, service, role, protocol, is_error, duration_lo, duration_counts",
};
const amounts = ["spans", "requests", "duration_us"];

/** Combines the roll-up with raw rows that it has not consumed. One statement reads one snapshot, so every span counts exactly once. */
function partsSql(
  { startMs, endMs, resolution, rolledUp }: Range,
  query: SpanRedQuery,
): { sql: string; parameters: Record<string, QueryParameter> } {
  const { where, parameters } = conditions(query);
  const table = tableOf(query);
  const columns = columnsOf[table];
  const inTime = (column: string): string =>
    `${column} >= make_timestamp(${Math.floor(startMs * 1_000)}) AND ${column} < make_timestamp(${Math.floor(endMs * 1_000)}) ${where}`;
  const raw = `SELECT "time", ${columns}, ${amounts.join(", ")} FROM raw.${table} WHERE ${inTime('"time"')}`;
  if (resolution === "raw") return { sql: raw, parameters };
  const name = `${table}_${resolution}`;
  const sql = `SELECT bucket AS "time", ${columns}, ${amounts.map((amount) => `${amount}_sum AS ${amount}`).join(", ")} FROM rollup.${name} WHERE ${inTime("bucket")}
    UNION ALL ${raw} AND ${notRolledUpSql(name, rolledUp)}`;
  return { sql, parameters };
}

function conditions(query: SpanRedQuery): { where: string; parameters: Record<string, QueryParameter> } {
  const parameters: Record<string, QueryParameter> = {};
  let where = "";
  if (query.service !== undefined) {
    const services = namedFilter(query.service);
    where += ` AND service IN (${services.list})`;
    Object.assign(parameters, services.parameters);
  }
  for (const name of ["role", "status", "version"] as const) {
    const value = query[name];
    if (value === undefined) continue;
    where += ` AND ${name} = $${name}`;
    parameters[name] = value;
  }
  if (query.onlyRequests) where += " AND role <> 'internal'";
  if (query.route !== undefined) {
    where += " AND contains(lower(method || ' ' || route), lower($route))";
    parameters["route"] = query.route;
  }
  if (query.agentIds !== undefined) {
    const ids = query.agentIds.map((_, index) => `$agent${index}`);
    for (const [index, id] of query.agentIds.entries()) parameters[`agent${index}`] = id;
    where += ` AND source IN (SELECT source FROM internal.sources WHERE agent_id IN (${ids.join(", ") || "NULL"}))`;
  }
  return { where, parameters };
}

function groupedSql(keys: readonly string[], limit: number): string {
  const list = keys.join(", ");
  return `SELECT *, row_number() OVER (ORDER BY requests DESC, ${list}) AS gid, count(*) OVER () AS total FROM (
      SELECT ${list}, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors, sum(spans) AS spans, sum(duration_us) AS duration_us
      FROM part GROUP BY ${list}
    ) QUALIFY gid <= ${Math.max(0, Math.floor(limit))}`;
}

function groupIn(row: QueryRow): SpanRedRow {
  const requests = numberIn(row, "requests");
  const role = textIn(row, "role");
  return {
    service: textIn(row, "service"),
    role: role === "server" || role === "client" ? role : "internal",
    protocol: textIn(row, "protocol"),
    method: textOrNullIn(row, "method"),
    route: textOrNullIn(row, "route"),
    status: textOrNullIn(row, "status"),
    version: textOrNullIn(row, "version"),
    requests,
    errors: numberIn(row, "errors"),
    spans: numberIn(row, "spans"),
    meanUs: requests > 0 ? numberIn(row, "duration_us") / requests : null,
    p50Us: percentileIn(row, "p50", 0),
    p95Us: percentileIn(row, "p95", 0),
    p99Us: percentileIn(row, "p99", 0),
    histogram: null,
    points: [],
    errorPoints: [],
  };
}

type Numbered = (columns: string) => string;

async function addHistograms(
  store: Queryable,
  answer: SpanRedAnswer,
  part: string,
  numbered: Numbered,
  parameters: Record<string, QueryParameter>,
): Promise<void> {
  const found = await store.query(
    `WITH ${part} SELECT gid, bucket, sum(n)::DOUBLE AS n FROM (
       SELECT gid, unnest(range(duration_lo, duration_lo + len(duration_counts))) AS bucket, unnest(duration_counts::UBIGINT[]) AS n
       FROM (${numbered("p.duration_lo, p.duration_counts")} WHERE g.gid <= ${histogramGroups})
     ) WHERE n > 0 GROUP BY gid, bucket ORDER BY gid, bucket`,
    parameters,
  );
  for (const row of found) {
    const group = answer.rows[numberIn(row, "gid") - 1];
    if (!group) continue;
    const bucket = numberIn(row, "bucket");
    const histogram = (group.histogram ??= { lo: bucket, counts: [] });
    while (histogram.lo + histogram.counts.length < bucket) histogram.counts.push(0);
    histogram.counts.push(numberIn(row, "n"));
  }
}

async function addPoints(
  store: Queryable,
  answer: SpanRedAnswer,
  part: string,
  numbered: Numbered,
  parameters: Record<string, QueryParameter>,
  points: number,
): Promise<void> {
  const bucketUs = Math.max(1, Math.ceil(((answer.endMs - answer.startMs) * 1_000) / points));
  const point = `least(${points - 1}, (epoch_us(p."time") - ${Math.floor(answer.startMs * 1_000)}) // ${bucketUs}) AS point`;
  const found = await store.query(
    `WITH ${part} SELECT gid, point, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors
     FROM (${numbered(`${point}, p.requests, p.is_error`)} WHERE g.gid <= ${seriesGroups}) GROUP BY gid, point`,
    parameters,
  );
  for (const group of answer.rows.slice(0, seriesGroups)) {
    group.points = new Array<number>(points).fill(0);
    group.errorPoints = new Array<number>(points).fill(0);
  }
  for (const row of found) {
    const group = answer.rows[numberIn(row, "gid") - 1];
    if (!group) continue;
    group.points[numberIn(row, "point")] = numberIn(row, "requests");
    group.errorPoints[numberIn(row, "point")] = numberIn(row, "errors");
  }
}
