/** Details of one service's summary: routes, callers and callees, a time series of the last hour, CPU and memory. */

import type { Resolved } from "../../../model/services.ts";
import type {
  ServiceDetailsFacts,
  ServiceDetailsRequest,
  SummaryPeerFact,
  SummaryPeriod,
  SummaryRouteFact,
} from "../../../model/summary.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { percentileIn, percentilesSql, redPartsSql, settleMs } from "../red-parts.ts";
import { type PartsRange, requestPartsSql } from "../request-parts.ts";
import { namedFilter } from "../service-filter.ts";
import { amountsIn, roleIn } from "./period-requests.ts";
import { type PeriodRange, summaryRanges } from "./summary-window.ts";

export interface ServiceDetailsQuery extends Resolved<ServiceDetailsRequest> {
  nowMs: number;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** Limit on rows of each kind; the busiest are kept. */
const rowsMax = 200;
const loadMaxMs = 900_000;

export async function queryServiceDetails(store: Queryable, query: ServiceDetailsQuery): Promise<ServiceDetailsFacts> {
  const ranges = await summaryRanges(store, query.source, query);
  const periods = (["now", "before"] as const).flatMap((period) => {
    const range = ranges[period];
    return range === undefined ? [] : [{ period, range }];
  });
  const [routes, peers, course, load] = await Promise.all([
    readRoutes(store, query, periods),
    readPeers(store, query, periods),
    readTimeSeries(store, query),
    readLoad(store, query),
  ]);
  return { routes, peers, course, load };
}

type Periods = readonly { period: SummaryPeriod; range: PeriodRange }[];

/** Groups of both periods in one statement: the busiest groups now, and the same groups before. */
function groupedSql(parts: readonly string[], keys: readonly string[]): string {
  const list = keys.join(", ");
  return `WITH part AS MATERIALIZED (${parts.join(" UNION ALL ")}),
     kept AS (SELECT ${list} FROM part GROUP BY ${list} ORDER BY sum(requests) DESC, ${list} LIMIT ${rowsMax}),
     grouped AS MATERIALIZED (
       SELECT *, row_number() OVER () AS gid FROM (
         SELECT period, ${list}, sum(requests) AS requests, sum(errors) AS errors, sum(duration_us) AS duration_us,
           sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples FROM part JOIN kept USING (${list}) GROUP BY period, ${list}
       )
     )
     SELECT g.*, d.p50, d.p95, d.p99 FROM grouped g LEFT JOIN (${percentilesSql(
       `SELECT g.gid, p.duration_lo, p.duration_counts FROM part p JOIN grouped g USING (period, ${list})`,
       "duration",
     )}) d ON d.gid = g.gid ORDER BY g.period, g.requests DESC, ${keys.map((key) => `g.${key}`).join(", ")}`;
}

const columns =
  "requests, CASE WHEN is_error THEN requests ELSE 0 END AS errors, duration_us, queue_us, queue_samples, duration_lo, duration_counts::UBIGINT[] AS duration_counts";

async function readRoutes(store: Queryable, query: ServiceDetailsQuery, periods: Periods): Promise<SummaryRouteFact[]> {
  const service = namedFilter(query.service);
  const parts = periods.map(
    ({ range }, index) =>
      `SELECT ${index} AS period, role, method, route, ${columns} FROM (${requestPartsSql(query.source, range, `AND service IN (${service.list}) AND role IN ('server', 'client') AND protocol <> 'tls'`)})`,
  );
  const rows = await store.query(groupedSql(parts, ["role", "method", "route"]), service.parameters);
  return rows.flatMap((row) =>
    withPeriod(row, periods, () => ({ role: roleIn(row), method: textIn(row, "method"), route: textIn(row, "route"), ...amountsIn(row) })),
  );
}

async function readPeers(store: Queryable, query: ServiceDetailsQuery, periods: Periods): Promise<SummaryPeerFact[]> {
  const service = namedFilter(query.service);
  const named = periods.map(({ range }, index) => {
    const sql =
      query.source === "hooks"
        ? `SELECT role, who, ${columns} FROM (${redPartsSql(range, { service: query.service }, true).sql}) WHERE protocol <> 'tls'`
        : spanPeersSql(range, service.list);
    return `SELECT ${index} AS period, * FROM (${sql})`;
  });
  const rows = await store.query(groupedSql(named, ["role", "who"]), service.parameters);
  return rows.flatMap((row) => withPeriod(row, periods, () => ({ role: roleIn(row), peer: textIn(row, "who"), ...amountsIn(row) })));
}

/** Calls whose both ends are known from traces. Durations are those of the callee. */
function spanPeersSql({ startMs, endMs, resolution }: PartsRange, services: string): string {
  const until = Number.isFinite(endMs) ? `make_timestamp(${Math.floor(endMs * 1_000)})` : "'infinity'::TIMESTAMP";
  const inTime = (column: string): string =>
    `${column} >= make_timestamp(${Math.floor(startMs * 1_000)}) AND ${column} < ${until} AND (client IN (${services}) OR server IN (${services}))`;
  const ends = "client, server, duration_lo, duration_counts::UBIGINT[] AS duration_counts";
  const raw = `SELECT ${ends}, requests, errors FROM raw.span_edge WHERE ${inTime('"time"')}`;
  const name = `span_edge_${resolution}`;
  const rows =
    resolution === "raw"
      ? raw
      : `SELECT ${ends}, requests_sum AS requests, errors_sum AS errors FROM rollup.${name} WHERE ${inTime("bucket")}
         UNION ALL ${raw} AND ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${name}')`;
  const isServer = `server IN (${services})`;
  return `SELECT CASE WHEN ${isServer} THEN 'server' ELSE 'client' END AS role, CASE WHEN ${isServer} THEN client ELSE server END AS who, requests, errors,
    0 AS duration_us, 0 AS queue_us, 0 AS queue_samples, duration_lo, duration_counts FROM (${rows})`;
}

function withPeriod<T>(row: QueryRow, periods: Periods, make: () => T): (T & { period: SummaryPeriod; coveredMs: number })[] {
  const found = periods[numberIn(row, "period")];
  return found ? [{ ...make(), period: found.period, coveredMs: found.range.coveredMs }] : [];
}

/** The window and the hour before it, in at most 90 steps of whole minutes. */
async function readTimeSeries(
  store: Queryable,
  { service, source, sinceMs, nowMs }: ServiceDetailsQuery,
): Promise<ServiceDetailsFacts["course"]> {
  const services = namedFilter(service);
  const stepMs = Math.max(1, Math.ceil((sinceMs + hourMs) / 90 / minuteMs)) * minuteMs;
  const points = Math.ceil((sinceMs + hourMs) / stepMs);
  // An unfinished step, or one whose last rows have not arrived, would look like a drop.
  const endMs = Math.floor((nowMs - settleMs) / stepMs) * stepMs;
  const startMs = endMs - points * stepMs;
  const range: PartsRange = { startMs, endMs, resolution: sinceMs <= 3 * hourMs ? "1m" : "10m" };
  const rows = await store.query(
    `WITH part AS MATERIALIZED (
       SELECT ((epoch_us("time") - ${startMs * 1_000}) // ${stepMs * 1_000})::BIGINT AS gid, requests, is_error, duration_lo, duration_counts
       FROM (${requestPartsSql(source, range, `AND service IN (${services.list}) AND role = 'server' AND protocol <> 'tls'`)})
     )
     SELECT s.*, d.p95 FROM (
       SELECT gid, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors FROM part GROUP BY gid
     ) s LEFT JOIN (${percentilesSql("SELECT gid, duration_lo, duration_counts FROM part", "duration")}) d ON d.gid = s.gid`,
    services.parameters,
  );
  const zeros = (): number[] => new Array<number>(points).fill(0);
  const course: ServiceDetailsFacts["course"] = {
    startMs,
    stepMs,
    requests: zeros(),
    errors: zeros(),
    p95Us: new Array<null>(points).fill(null),
  };
  for (const row of rows) {
    const at = numberIn(row, "gid");
    if (at < 0 || at >= points) continue;
    course.requests[at] = numberIn(row, "requests");
    course.errors[at] = numberIn(row, "errors");
    course.p95Us[at] = percentileIn(row, "p95", 0);
  }
  return course;
}

/** Only for processes among the busiest of their hosts; others are not sampled. */
async function readLoad(store: Queryable, { service, sinceMs, nowMs }: ServiceDetailsQuery): Promise<ServiceDetailsFacts["load"]> {
  const services = namedFilter(service);
  const startMs = nowMs - Math.min(sinceMs, loadMaxMs);
  const [startUs, fromUs] = [startMs, startMs - hourMs].map((ms) => Math.floor(ms * 1_000));
  const inTime = `"time" >= make_timestamp(${fromUs})`;
  const rows = await store.query(
    `WITH own AS (SELECT DISTINCT source, pid, start_ticks FROM raw.service_instance WHERE service IN (${services.list}) AND pid > 0 AND ${inTime}),
     sample AS (
       SELECT source, "time" >= make_timestamp(${startUs}) AS is_now, "time", sum(cpu_cores) AS cpu, sum(rss_bytes) AS rss
       FROM raw.host_process JOIN own USING (source, pid, start_ticks) WHERE ${inTime} GROUP BY ALL
     )
     SELECT is_now, sum(cpu) AS cpu, sum(rss)::DOUBLE AS rss FROM (SELECT source, is_now, avg(cpu) AS cpu, avg(rss) AS rss FROM sample GROUP BY ALL)
     GROUP BY is_now ORDER BY is_now DESC`,
    services.parameters,
  );
  return rows.map((row) => ({
    period: row["is_now"] === true ? "now" : "before",
    cpuCores: numberOrNullIn(row, "cpu") ?? 0,
    rssBytes: numberOrNullIn(row, "rss") ?? 0,
  }));
}
