/** SQL that counts the spans of some segments by time window and kind of span. */

import { fineLayout } from "../../../base/latency-histogram.ts";

/** Window of one row. Spans that arrive late get a window of one minute: no query reads them by seconds. */
const windowMs = 10_000;
const lateWindowMs = 60_000;
const lateAfterUs = 600_000_000;
/** Distinct routes per service and step. Limits the rows of a sender that gives every span its own name. */
const maxRoutes = 200;
const lastBucket = fineLayout.bucketCount - 1;
const partsLog2 = fineLayout.partsPerOctaveLog2;

/** SQL for the bucket of a duration, equal to `bucketOf(fineLayout, …)`. log2 is exact for nanoseconds below 2^36. */
export function bucketSql(ns: string): string {
  const octave = `CAST(floor(log2(${ns})) AS BIGINT)`;
  const part = `((${ns} >> (${octave} - ${partsLog2})) & ${(1 << partsLog2) - 1})`;
  return `CASE WHEN ${ns} < 1024 THEN 0 WHEN ${ns} >= 68719476736 THEN ${lastBucket} ELSE 1 + ((${octave} - 10) << ${partsLog2}) + ${part} END`;
}

/**
 * A weight rounded to an integer: 2.3 becomes 3 for three spans of ten and 2 for the others. The rounding must not correlate with the
 * sampling decision.
 */
export const wholeWeightSql = `CAST(floor(weight) AS BIGINT) + CASE WHEN (hash(span_id) % 65536) / 65536.0 < weight - floor(weight) THEN 1 ELSE 0 END`;

export const protocolSql = `CASE WHEN rpc_system IS NOT NULL THEN rpc_system WHEN messaging_system IS NOT NULL THEN messaging_system
    WHEN db_system IS NOT NULL THEN db_system WHEN http_method IS NOT NULL OR http_route IS NOT NULL OR http_status_code IS NOT NULL THEN 'http' ELSE 'span' END`;

/** From a group's rows with `bucket` and `whole`: the sorted list of buckets with their counts; null when all counts are 0. */
export const bucketListSql = "list_sort(list({b: bucket, n: whole}) FILTER (whole > 0))";

const countSql = (index: string): string => `[least(buckets[${index}].n, 4294967295)::UINTEGER]`;
/**
 * Histogram columns from `buckets`, as made by `bucketListSql`: the lowest bucket, and the counts from there to the highest. Each count is
 * followed by zeros for the empty buckets after it; looking each bucket up would take twice as long. Most groups of a step have one bucket.
 */
export const histogramSql = `coalesce(buckets[1].b, 0) AS duration_lo, CASE WHEN buckets IS NULL THEN [] WHEN len(buckets) = 1 THEN ${countSql("1")}
      ELSE flatten(list_transform(range(1, len(buckets) + 1), lambda i:
        list_resize(${countSql("i")}, CASE WHEN i < len(buckets) THEN buckets[i + 1].b - buckets[i].b ELSE 1 END, 0::UINTEGER))) END AS duration_counts`;

/** Keys of raw.span_red and of raw.span_service. */
export const spanRedKeys = "service, role, protocol, method, route, status, is_error, version";
export const spanServiceKeys = "service, role, protocol, is_error";
const keysOf = (columns: string): string => `source, win, window_ms, ${columns}`;

/** Span columns that `spanRedSql` reads. */
export const spanRedColumns =
  `"time", service, span_id, name, kind, duration_ns, status, weight, service_version, http_method, http_route, http_status_code, ` +
  "db_system, rpc_system, rpc_service, rpc_method, rpc_status_code, messaging_system, messaging_destination";

/** Services with more routes than the limit; usually none. */
export function crowdedSql(rows: string): string {
  return `SELECT service FROM (${rows}) GROUP BY service HAVING approx_count_distinct(coalesce(http_route, rpc_method, messaging_destination, name)) > ${maxRoutes / 2} LIMIT 1`;
}

/**
 * `rows` has `spanRedColumns` and `source`. The result has `source`, `time`, `window_ms`, the keys and the amounts. `isCrowded` limits the
 * routes of each service, which doubles the cost.
 */
export function spanRedSql(rows: string, nowUs: number, columns: string, isCrowded: boolean): string {
  const keys = keysOf(columns);
  const named =
    "CASE WHEN http_method IS NOT NULL AND starts_with(name, http_method || ' ') THEN substr(name, len(http_method) + 2) ELSE name END";
  const isLate = `"time" < make_timestamp(${nowUs - lateAfterUs})`;
  const shaped = `SELECT source, CASE WHEN ${isLate} THEN ${lateWindowMs} ELSE ${windowMs} END AS window_ms,
      make_timestamp(epoch_us("time") // (window_ms * 1000) * window_ms * 1000) AS win, service,
      CASE WHEN kind IN ('server', 'consumer') THEN 'server' WHEN kind IN ('client', 'producer') THEN 'client' ELSE 'internal' END AS role,
      ${protocolSql} AS protocol, coalesce(http_method, '') AS method,
      coalesce(http_route, nullif(concat_ws('/', rpc_service, rpc_method), ''), messaging_destination, ${named}) AS route,
      coalesce(CAST(http_status_code AS VARCHAR), CAST(rpc_status_code AS VARCHAR), status) AS status,
      status = 'error' OR coalesce(http_status_code, 0) >= 500 AS is_error, service_version AS version,
      ${bucketSql("duration_ns")} AS bucket, weight, ${wholeWeightSql} AS whole, duration_ns
    FROM (${rows})`;
  const counted = `SELECT ${keys}, bucket, sum(whole) AS whole, sum(weight) AS weight, sum(weight * duration_ns) AS ns, count(*) AS spans
    FROM (${shaped}) GROUP BY ALL`;
  return `${isCrowded ? boundedSql(counted, keys) : `WITH counted AS (${counted})`}
    SELECT source, win AS "time", window_ms, ${columns}, spans::BIGINT AS spans, requests, duration_us, ${histogramSql}
    FROM (
      SELECT ${keys}, sum(spans) AS spans, sum(weight) AS requests, sum(ns) / 1000 AS duration_us, ${bucketListSql} AS buckets
      FROM counted GROUP BY ${keys}
    )`;
}

function boundedSql(every: string, keys: string): string {
  const busiest = `SELECT service, method, route FROM every GROUP BY service, method, route
    QUALIFY row_number() OVER (PARTITION BY service ORDER BY sum(spans) DESC, method, route) <= ${maxRoutes}`;
  const named = `SELECT e.* REPLACE (CASE WHEN b.service IS NULL THEN '' ELSE e.method END AS method, CASE WHEN b.service IS NULL THEN 'other' ELSE e.route END AS route)
    FROM every e LEFT JOIN busiest b ON b.service = e.service AND b.method = e.method AND b.route = e.route`;
  return `WITH every AS MATERIALIZED (${every}), busiest AS MATERIALIZED (${busiest}),
    counted AS (SELECT ${keys}, bucket, sum(whole) AS whole, sum(weight) AS weight, sum(ns) AS ns, sum(spans) AS spans FROM (${named}) GROUP BY ALL)`;
}
