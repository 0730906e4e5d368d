import { coarseLayout, fineLayout } from "../../base/latency-histogram.ts";
import { bucketMiddleUsSql } from "../engine/histogram-sql.ts";
import type { ViewColumn } from "../tables/rollup.ts";

const keys: ViewColumn[] = [
  ...["service", "role", "protocol"].map((name) => ({ name, type: "VARCHAR" })),
  { name: "server_port", type: "BIGINT" },
  ...["peer", "peer_address", "method", "route", "status"].map((name) => ({ name, type: "VARCHAR" })),
  { name: "is_error", type: "BOOLEAN" },
];
const parts = ["duration", "queue", "first_byte"];

/**
 * Histograms of requests as rows, because users' SQL has no functions to unpack them. Reads partials of roll-ups and raw rows that are not
 * rolled up yet. Counts add up, so nothing has to be merged first.
 */
export function latenciesView(database: string): { name: string; description: string; columns: ViewColumn[]; sql: string } {
  const names = keys.map(({ name }) => `"${name}"`).join(", ");
  const histograms = parts.map((part) => `{part: '${part}', lo: ${part}_lo, counts: ${part}_counts::UBIGINT[]}`).join(", ");
  const rows = (table: string, time: string, more = ""): string =>
    `SELECT source, ${time} AS "time", ${names}, unnest([${histograms}]) AS h FROM "${database}".${table} ${more}`;
  const isNew = `ingest > (SELECT coalesce(max(ingest), 0) FROM "${database}".internal.rollup_progress WHERE name = 'red_1m')`;
  const isPlausible = "h.lo BETWEEN 0 AND 4096 AND len(h.counts) BETWEEN 1 AND 4096";
  return {
    name: "red_latencies",
    description:
      "Latency histogram of requests per minute: one row per kind of request, part (duration, queue, first_byte) and bucket, with the middle of the bucket in microseconds (off by at most 3 to 6 %) and its number of requests",
    columns: [
      { name: "agent_id", type: "VARCHAR" },
      { name: "time", type: "TIMESTAMP" },
      ...keys,
      { name: "part", type: "VARCHAR" },
      { name: "us", type: "DOUBLE" },
      { name: "requests", type: "UBIGINT" },
    ],
    sql: `SELECT s.agent_id, f."time", ${keys.map(({ name }) => `f."${name}"`).join(", ")}, f.part,
        CASE WHEN f.part = 'duration' THEN ${bucketMiddleUsSql(fineLayout, "f.bucket")} ELSE ${bucketMiddleUsSql(coarseLayout, "f.bucket")} END AS us, f.requests
      FROM (
        SELECT source, "time", ${names}, h.part AS part, unnest(range(h.lo, h.lo + len(h.counts))) AS bucket, unnest(h.counts) AS requests
        FROM (${rows("rollup.red_1m", "bucket")} UNION ALL ${rows("raw.red", 'time_bucket(INTERVAL 1 MINUTE, "time")', `WHERE ${isNew}`)}) WHERE ${isPlausible}
      ) f JOIN "${database}".internal.sources s USING (source) WHERE f.requests > 0`,
  };
}
