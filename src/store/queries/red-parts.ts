/** Rows of requests in a time, from raw rows or their roll-ups, as one relation that the queries about requests share. */

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
 * Longest time that is read at a resolution: of one service, whose rows lie among those of all others, and of all. Sums and histograms are the
 * same at each; what a coarser one costs is where the time begins, and how fine a series can be.
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
/** A newest row that is older than this is not just on its way. */
const lagMs = 120_000;

export interface RedWindow extends RedRange {
  /** The part of the time that rows cover. */
  coveredMs: number;
  /** False when no request was ever stored, or none is kept. */
  hasRows: boolean;
}

/**
 * The rows to read for the last `sinceMs`: as fine as is cheap, coarser when the finer ones are not kept for so long. With `before`, as long a
 * time before that is read from the same rows.
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
  // Raw rows that were never rolled up are read with any resolution, so a coarser table is only better when it is older by more than its step.
  const resolution = order
    .slice(order.indexOf(wanted))
    .reduce((best, other) => (oldestMs(best) > query.nowMs - backMs && oldestMs(other) < oldestMs(best) - stepMs[other] ? other : best));
  const align = (atMs: number): number => (resolution === "raw" ? atMs : Math.ceil(atMs / stepMs[resolution]) * stepMs[resolution]);
  const askedMs = align(query.nowMs - query.sinceMs);
  // A row has the time at which its ten seconds ended: it belongs to the window when its middle does.
  const startMs = resolution === "raw" ? askedMs + stepMs.raw / 2 : askedMs;
  const newestMs = (numberOrNullIn(row, "newest") ?? Number.NEGATIVE_INFINITY) / 1_000;
  const seenUntilMs = newestMs <= query.nowMs && newestMs > query.nowMs - lagMs ? newestMs : query.nowMs;
  // The bucket of a roll-up begins at most one step before its first row.
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

/** The time of the first rows of a table, which lie in the order in which they came: about the oldest, without reading them all. */
export function oldestSql(table: string, column: string): string {
  return `(SELECT min(${column}) FROM (SELECT ${column} FROM ${table} LIMIT 4096))`;
}

/**
 * For rows that a roll-up has not consumed. `known` is how far it was a moment ago: it bounds what is read before the statement runs, which looks
 * again for itself.
 */
export function notRolledUpSql(name: string, known: number): string {
  return `ingest > ${Math.floor(known)} AND ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${name}')`;
}

/** How far a roll-up is. */
export function rolledUpSql(name: string): string {
  return `(SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${name}')`;
}

/** Rows have ten seconds each, and arrive with a pull, every five seconds by default: younger buckets would look like a fall. */
export const settleMs = 15_000;

export interface RedBuckets {
  bucketMs: number;
  points: number;
  /** Buckets that are over, and whose rows have arrived. */
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
 * The rows of a range that pass the filter. Roll-ups come with the raw rows that they have not consumed yet: both are read in one snapshot, so
 * that every request is there exactly once. `who` names the other end as far as it is known.
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
/** Rows this old are in the roll-up of ten minutes, but for late ones. */
const settledMs = 1.5 * minutesOfTen;

/**
 * The same rows for sums only: whole ten minutes within a long time are read as such, which is a fraction of the rows and, as every row is in
 * exactly one part, the same sums and histograms.
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
 * Adds `who`, the other end: a service that the agent recognised, the only service with that address, the name by which it was requested,
 * its external name, or the address; and `is_who_service`.
 */
export function withPeerSql(rows: string): string {
  const single = "HAVING min(service) = max(service)";
  const registered = "CASE WHEN p.role = 'client' THEN l.service ELSE c.service END";
  // What an agent calls the other end of a connection within its host is a service, also before the registry has heard of it.
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

/** Groups that get percentiles of queue and first byte, too: unnesting histograms is most of the cost over all services. */
export const maxGroupsWithParts = 200;

/**
 * From a relation with `gid` and the histogram of durations, or all: `gid`, `kind` (the number of the histogram) and the buckets `p50`, `p95` and
 * `p99`. All in one pass: planning costs more than reading what one service did in a day.
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

/** Microseconds of a percentile that `percentilesSql` found. */
export function percentileIn(row: QueryRow, name: "p50" | "p95" | "p99", kind = numberIn(row, "kind")): number | null {
  const bucket = numberOrNullIn(row, name);
  const layout = histogramsOfRow[kind]?.layout;
  return bucket === null || !layout ? null : bucketMiddleNs(layout, Math.min(bucket, layout.bucketCount - 1)) / 1_000;
}
