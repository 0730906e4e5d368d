/** Requests counted by hooks or by spans in one relation, for queries that accept either. */

import type { RequestSource } from "../../model/summary.ts";
import { numberIn, numberOrNullIn, type Queryable } from "../tables/queryable.ts";
import type { RedResolution } from "./red-parts.ts";

/** Milliseconds since 1970; `endMs` is exclusive. */
export interface PartsRange {
  startMs: number;
  endMs: number;
  resolution: RedResolution;
}

const tables: Record<RequestSource, string> = { hooks: "red", spans: "span_red" };
const keys = ["source", "service", "role", "protocol", "method", "route", "status", "is_error"];

/** Stores known to have a source's table; tables are created when a store opens. */
const known = new WeakMap<Queryable, Map<RequestSource, boolean>>();

export async function hasRequests(store: Queryable, source: RequestSource): Promise<boolean> {
  const found = known.get(store) ?? new Map<RequestSource, boolean>();
  known.set(store, found);
  let has = found.get(source);
  if (has === undefined) {
    const [row = {}] = await store.query(
      "SELECT count(*) AS tables FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'raw' AND table_name = ?",
      [tables[source]],
    );
    has = numberIn(row, "tables") > 0;
    found.set(source, has);
  }
  return has;
}

/** The oldest time of each resolution, milliseconds since 1970; infinite without rows. */
export async function oldestParts(store: Queryable, source: RequestSource): Promise<Record<RedResolution, number>> {
  const name = tables[source];
  const [row = {}] = await store.query(
    `SELECT (SELECT min("time") FROM raw.${name}) AS raw, (SELECT min(bucket) FROM rollup.${name}_1m) AS "1m", (SELECT min(bucket) FROM rollup.${name}_10m) AS "10m"`,
  );
  const of = (resolution: RedResolution): number => (numberOrNullIn(row, resolution) ?? Number.POSITIVE_INFINITY) / 1_000;
  return { raw: of("raw"), "1m": of("1m"), "10m": of("10m") };
}

/**
 * Rows with `time`, the keys, `version` (null for hooks), `requests`, `duration_us`, `queue_us`, `queue_samples` and the histogram of
 * durations. `where` begins with AND and may name keys only. Combines roll-ups with raw rows that they have not consumed.
 */
export function requestPartsSql(source: RequestSource, { startMs, endMs, resolution }: PartsRange, where = ""): string {
  const name = tables[source];
  const isHooks = source === "hooks";
  const inTime = (column: string): string =>
    `${column} >= make_timestamp(${Math.floor(startMs * 1_000)})${Number.isFinite(endMs) ? ` AND ${column} < make_timestamp(${Math.floor(endMs * 1_000)})` : ""}`;
  const version = isHooks ? "NULL::VARCHAR AS version" : "version";
  const amounts = (suffix: string): string =>
    ["requests", "duration_us", ...(isHooks ? ["queue_us", "queue_samples"] : [])]
      .map((column) => `${column}${suffix}::DOUBLE AS ${column}`)
      .concat(isHooks ? [] : ["0::DOUBLE AS queue_us", "0::DOUBLE AS queue_samples"])
      .join(", ");
  const rest = "duration_lo, duration_counts::UBIGINT[] AS duration_counts";
  const raw = `SELECT "time", ${keys.join(", ")}, ${version}, ${amounts("")}, ${rest} FROM raw.${name} WHERE ${inTime('"time"')} ${where}`;
  if (resolution === "raw") return raw;
  const coarse = `${name}_${resolution}`;
  return `SELECT bucket AS "time", ${keys.join(", ")}, ${version}, ${amounts("_sum")}, ${rest} FROM rollup.${coarse} WHERE ${inTime("bucket")} ${where}
    UNION ALL ${raw} AND ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${coarse}')`;
}

/** Requests seen by hooks, with the known facts of the peer. `where` as in requestPartsSql(), and may also name `peer`. */
export function requestViewsSql({ startMs, endMs, resolution }: PartsRange, where = ""): string {
  const inTime = (column: string): string =>
    `${column} >= make_timestamp(${Math.floor(startMs * 1_000)})${Number.isFinite(endMs) ? ` AND ${column} < make_timestamp(${Math.floor(endMs * 1_000)})` : ""}`;
  const columns = [...keys, "server_port", "peer", "peer_address"].join(", ");
  const raw = `SELECT ${columns}, requests::DOUBLE AS requests, duration_us::DOUBLE AS duration_us FROM raw.red WHERE ${inTime('"time"')} ${where}`;
  if (resolution === "raw") return raw;
  const coarse = `red_${resolution}`;
  return `SELECT ${columns}, requests_sum::DOUBLE AS requests, duration_us_sum::DOUBLE AS duration_us FROM rollup.${coarse} WHERE ${inTime("bucket")} ${where}
    UNION ALL ${raw} AND ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${coarse}')`;
}
