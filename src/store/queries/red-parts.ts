/** Rows of requests in a time range, from raw rows or roll-ups, as one relation that all request queries share. */

import { bucketMiddleNs, coarseLayout, fineLayout } from "../../base/latency-histogram.ts";
import type { RedFilter } from "../../model/red.ts";
import type { Resolved } from "../../model/services.ts";
import { isLocalAddress } from "../discovery/sql-parts.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryParameter, type QueryRow } from "../tables/queryable.ts";
import { namedFilter } from "./service-filter.ts";

export type RedResolution = "raw" | "1m" | "10m";

/** Milliseconds since 1970; `endMs` is exclusive. */
export interface RedRange {
  startMs: number;
  endMs: number;
  resolution: RedResolution;
}

const hourMs = 3_600_000;
const stepMs: Record<RedResolution, number> = { raw: 10_000, "1m": 60_000, "10m": 600_000 };
/**
 * Longest window that is read at a resolution: for one service, whose rows are interleaved with those of all others, and for all. Sums and
 * histograms are the same at each resolution; a coarser one only loses precision of the window's start and of the series.
 */
const maxBackMs: Record<"one" | "all", [RedResolution, number][]> = {
  one: [
    ["raw", hourMs],
    ["1m", 4 * hourMs],
  ],
  all: [
    ["raw", hourMs / 6],
    ["1m", 2 * hourMs],
  ],
};
/** A newest row older than this means that requests stopped, not that rows are in transit. */
const lagMs = 120_000;

export interface RedWindow extends RedRange {
  /** The part of the window that rows cover. */
  coveredMs: number;
  /** False if no request was ever stored, or retention removed all. */
  hasRows: boolean;
}

/**
 * Chooses the rows for the last `sinceMs`: the finest resolution that is cheap, coarser where retention removed finer rows. `before` adds
 * an equal period before that, read at the same resolution.
 */
export async function redWindow(
  store: Queryable,
  query: { sinceMs: number; nowMs: number; one: boolean; before?: boolean },
): Promise<RedWindow> {
  const backMs = query.sinceMs * (query.before ? 2 : 1);
  const [row = {}] = await store.query(
    `SELECT (SELECT min("time") FROM raw.red) AS raw, (SELECT min(bucket) FROM rollup.red_1m) AS "1m", (SELECT min(bucket) FROM rollup.red_10m) AS "10m",
       (SELECT max("time") FROM raw.red) AS newest`,
  );
  const oldestMs = (resolution: RedResolution): number => (numberOrNullIn(row, resolution) ?? Number.POSITIVE_INFINITY) / 1_000;
  const wanted = maxBackMs[query.one ? "one" : "all"].find(([, maxMs]) => backMs <= maxMs)?.[0] ?? "10m";
  const order: RedResolution[] = ["raw", "1m", "10m"];
  // Every resolution includes raw rows that are not rolled up, so a coarser table only helps if it reaches back further by more than its
  // step.
  const resolution = order
    .slice(order.indexOf(wanted))
    .reduce((best, other) => (oldestMs(best) > query.nowMs - backMs && oldestMs(other) < oldestMs(best) - stepMs[other] ? other : best));
  const align = (atMs: number): number => (resolution === "raw" ? atMs : Math.ceil(atMs / stepMs[resolution]) * stepMs[resolution]);
  const askedMs = align(query.nowMs - query.sinceMs);
  // The time of a raw row is the end of its ten seconds. The row belongs to the window if its middle does.
  const startMs = resolution === "raw" ? askedMs + stepMs.raw / 2 : askedMs;
  const newestMs = (numberOrNullIn(row, "newest") ?? Number.NEGATIVE_INFINITY) / 1_000;
  const seenUntilMs = newestMs <= query.nowMs && newestMs > query.nowMs - lagMs ? newestMs : query.nowMs;
  // A roll-up's bucket begins at most one step before its first row.
  const rawMs = oldestMs("raw");
  const firstMs = Math.min(...order.map((name) => (oldestMs(name) + stepMs[name] > rawMs ? rawMs : oldestMs(name)))) - stepMs.raw;
  return {
    startMs,
    endMs: Number.POSITIVE_INFINITY,
    resolution,
    hasRows: Number.isFinite(firstMs),
    coveredMs: Math.max(stepMs.raw, seenUntilMs - Math.max(askedMs, Number.isFinite(firstMs) ? firstMs : askedMs)),
  };
}

/** The time of a table's first rows. Rows are stored in order of arrival, so this is close to the oldest time without reading all. */
export function oldestSql(table: string, column: string): string {
  return `(SELECT min(${column}) FROM (SELECT ${column} FROM ${table} LIMIT 4096))`;
}

/**
 * Condition for rows that a roll-up has not consumed. `known` is a recent progress value: it prunes the scan, and the statement reads the
 * current progress itself.
 */
export function notRolledUpSql(name: string, known: number): string {
  return `ingest > ${Math.floor(known)} AND ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${name}')`;
}

/** The progress of a roll-up. */
export function rolledUpSql(name: string): string {
  return `(SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${name}')`;
}

/**
 * Rows cover ten seconds each and arrive with a pull, by default every five seconds. Younger buckets are incomplete and would look like a
 * drop.
 */
export const settleMs = 15_000;

export interface RedBuckets {
  bucketMs: number;
  points: number;
  /** Buckets that have ended and whose rows have arrived. */
  settledPoints: number;
}

/** Steps of a series over a window: at most `maxPoints`, never finer than the rows. */
export function redBuckets({ startMs, resolution }: RedRange, nowMs: number, maxPoints: number): RedBuckets {
  if (maxPoints <= 0) return { bucketMs: 0, points: 0, settledPoints: 0 };
  const step = stepMs[resolution];
  const spanMs = Math.max(step, nowMs - startMs);
  const bucketMs = Math.max(step, Math.ceil(spanMs / maxPoints / step) * step);
  const points = Math.ceil(spanMs / bucketMs);
  return { bucketMs, points, settledPoints: Math.min(points, Math.max(0, Math.floor((spanMs - settleMs) / bucketMs))) };
}

const keys = "source, service, role, protocol, is_tls, server_port, peer, peer_address, method, route, status, is_error";
const histograms = "duration_lo, duration_counts, queue_lo, queue_counts, first_byte_lo, first_byte_counts";
const amounts = ["requests", "request_bytes", "response_bytes", "duration_us", "queue_us", "queue_samples"];

export interface SqlWithParameters {
  sql: string;
  parameters: Record<string, QueryParameter>;
}

/**
 * Rows of a range that pass the filter. Combines the roll-up with raw rows that it has not consumed; one statement reads one snapshot, so
 * every request counts exactly once. `who` names the peer as far as it is known.
 */
export function redPartsSql(range: RedRange, filter: Resolved<RedFilter>, withWho: boolean): SqlWithParameters {
  const { where, parameters } = conditions(filter);
  const inTime = (column: string): string => {
    const end = Number.isFinite(range.endMs) ? ` AND ${column} < make_timestamp(${Math.floor(range.endMs * 1_000)})` : "";
    return `${column} >= make_timestamp(${Math.floor(range.startMs * 1_000)})${end}`;
  };
  const raw = `SELECT "time", ${keys}, ${amounts.map((name) => `${name}::DOUBLE AS ${name}`).join(", ")}, ${histograms} FROM raw.red WHERE ${inTime('"time"')} ${where}`;
  const coarse = `red_${range.resolution}`;
  const rows =
    range.resolution === "raw"
      ? raw
      : `SELECT bucket AS "time", ${keys}, ${amounts.map((name) => `${name}_sum::DOUBLE AS ${name}`).join(", ")}, ${histograms}
         FROM rollup.${coarse} WHERE ${inTime("bucket")} ${where}
         UNION ALL ${raw} AND ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${coarse}')`;
  const isWhoNeeded = withWho || filter.peer !== undefined;
  if (!isWhoNeeded) return { sql: rows, parameters };
  const peer = filter.peer === undefined ? undefined : namedFilter(filter.peer, "peer");
  const chosen = peer === undefined ? "" : `WHERE who IN (${peer.list}) OR peer_address IN (${peer.list})`;
  return { sql: `SELECT * FROM (${withPeerSql(rows)}) ${chosen}`, parameters: { ...parameters, ...peer?.parameters } };
}

const minutesOfTen = stepMs["10m"];
/** Rows older than this are in the ten-minute roll-up, except late ones. */
const settledMs = 1.5 * minutesOfTen;

/**
 * The same rows, for sums only: whole ten-minute buckets inside a long window are read from the ten-minute roll-up. That reads a fraction
 * of the rows, and since every row is in exactly one part, sums and histograms are the same.
 */
export function redSumsSql(range: RedRange, nowMs: number, filter: Resolved<RedFilter>): SqlWithParameters {
  const fromMs = Math.ceil(range.startMs / minutesOfTen) * minutesOfTen;
  const untilMs = Math.floor(Math.min(range.endMs, nowMs - settledMs) / minutesOfTen) * minutesOfTen;
  if (range.resolution !== "1m" || untilMs <= fromMs) return redPartsSql(range, filter, false);
  const parts = [
    { ...range, endMs: fromMs },
    { startMs: fromMs, endMs: untilMs, resolution: "10m" as const },
    { ...range, startMs: untilMs },
  ].map((part) => redPartsSql(part, filter, false));
  return { sql: parts.map(({ sql }) => sql).join(" UNION ALL "), parameters: parts[0]?.parameters ?? {} };
}

function conditions(filter: Resolved<RedFilter>): { where: string; parameters: Record<string, QueryParameter> } {
  const parameters: Record<string, QueryParameter> = {};
  let where = "";
  if (filter.service !== undefined) {
    const services = namedFilter(filter.service);
    where += ` AND service IN (${services.list})`;
    Object.assign(parameters, services.parameters);
  }
  for (const name of ["role", "protocol", "status"] as const) {
    const value = filter[name];
    if (value === undefined) continue;
    where += ` AND ${name} = $${name}`;
    parameters[name] = value;
  }
  if (filter.route !== undefined) {
    where += " AND contains(lower(method || ' ' || route), lower($route))";
    parameters["route"] = filter.route;
  }
  if (filter.agentIds !== undefined) {
    const ids = filter.agentIds.map((_, index) => `$agent${index}`);
    for (const [index, id] of filter.agentIds.entries()) parameters[`agent${index}`] = id;
    where += ` AND source IN (SELECT source FROM internal.sources WHERE agent_id IN (${ids.join(", ") || "NULL"}))`;
  }
  return { where, parameters };
}

/**
 * Adds `who`, the peer: a service that the agent identified, the only service with that address, the requested host name, the external
 * name, or the address. Also adds `is_who_service`.
 */
export function withPeerSql(rows: string): string {
  const single = "HAVING min(service) = max(service)";
  const registered = "CASE WHEN p.role = 'client' THEN l.service ELSE c.service END";
  // A peer that the agent named on its own host is a service, even before the registry knows it.
  const isService = `(k.service IS NOT NULL OR (p.peer IS NOT NULL AND ${isLocalAddress("p.peer_address")}))`;
  return `SELECT p.*, coalesce(CASE WHEN ${isService} THEN p.peer END, ${registered}, p.peer, r.resolved_name, p.peer_address) AS who,
      ${isService} OR ${registered} IS NOT NULL AS is_who_service
    FROM (${rows}) p
    LEFT JOIN (SELECT DISTINCT service FROM net.service_registry) k ON k.service = p.peer
    LEFT JOIN (SELECT address, port, any_value(service) AS service FROM net.service_addresses
      WHERE port > 0 AND NOT ${isLocalAddress("address")} GROUP BY ALL ${single}) l ON l.address = p.peer_address AND l.port = p.server_port
    LEFT JOIN (SELECT address, any_value(service) AS service FROM net.service_addresses
      WHERE NOT ${isLocalAddress("address")} GROUP BY ALL ${single} AND min(agent_id) = max(agent_id)) c ON c.address = p.peer_address
    LEFT JOIN net.endpoint_resolution r ON r.ip_address = p.peer_address`;
}

/** The histograms of a row, in the order of their numbers. */
const histogramsOfRow = [
  { column: "duration", layout: fineLayout },
  { column: "queue", layout: coarseLayout },
  { column: "first_byte", layout: coarseLayout },
] as const;

/** Limit on groups with percentiles of queue time and time to first byte. Unnesting histograms is most of the cost over all services. */
export const maxGroupsWithParts = 200;

/**
 * From a relation with `gid` and the histogram of durations, or all histograms: `gid`, `kind` (the histogram's number) and the buckets
 * `p50`, `p95` and `p99`. One pass, because planning costs more than reading a day of one service.
 */
export function percentilesSql(rows: string, histograms: "duration" | "all"): string {
  const [duration, ...parts] = histogramsOfRow.map(
    ({ column }, kind) => `{kind: ${kind}, lo: ${column}_lo, counts: ${column}_counts::UBIGINT[]}`,
  );
  const structs =
    histograms === "duration"
      ? `[${duration}]`
      : `CASE WHEN gid <= ${maxGroupsWithParts} THEN [${duration}, ${parts.join(", ")}] ELSE [${duration}] END`;
  const picked = ([50, 95, 99] as const).map((share) => `min(bucket) FILTER (upto >= ${share / 100} * total) AS p${share}`);
  return `SELECT gid, kind, ${picked.join(", ")} FROM (
      SELECT gid, kind, bucket, sum(n) OVER (PARTITION BY gid, kind ORDER BY bucket) AS upto, sum(n) OVER (PARTITION BY gid, kind) AS total FROM (
        SELECT gid, kind, bucket, sum(n)::DOUBLE AS n FROM (
          SELECT gid, h.kind AS kind, unnest(range(h.lo, h.lo + len(h.counts))) AS bucket, unnest(h.counts) AS n
          FROM (SELECT gid, unnest(${structs}) AS h FROM (${rows})) WHERE len(h.counts) BETWEEN 1 AND 4096 AND h.lo BETWEEN 0 AND 4096
        ) WHERE n > 0 GROUP BY ALL
      )
    ) GROUP BY gid, kind`;
}

/** Microseconds of a percentile computed by percentilesSql(). */
export function percentileIn(row: QueryRow, name: "p50" | "p95" | "p99", kind = numberIn(row, "kind")): number | null {
  const bucket = numberOrNullIn(row, name);
  const layout = histogramsOfRow[kind]?.layout;
  return bucket === null || !layout ? null : bucketMiddleNs(layout, Math.min(bucket, layout.bucketCount - 1)) / 1_000;
}
