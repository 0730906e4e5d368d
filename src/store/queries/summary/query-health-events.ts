/** What the watch of services' health needs of the store. */

import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { hasRequests } from "../request-parts.ts";

export const healthEventKinds = ["service-recovered", "service-degraded", "service-critical"] as const;
/** Rows of requests that are older than this are not news. */
const recentMs = 120_000;

/** By service, what it was last reported to be. */
export async function queryHealthEvents(
  store: Queryable,
  { sinceMs, nowMs }: { sinceMs: number; nowMs: number },
): Promise<{ service: string; after: string }[]> {
  const rows = await store.query(
    `SELECT json_extract_string(details, '$.service') AS service, arg_max(json_extract_string(details, '$.after'), occurred_at) AS after
     FROM registry.events WHERE kind IN (${healthEventKinds.map((kind) => `'${kind}'`).join(", ")})
       AND occurred_at > make_timestamp(${Math.floor((nowMs - sinceMs) * 1_000)}) GROUP BY 1`,
  );
  return rows.map((row) => ({ service: textIn(row, "service"), after: textIn(row, "after") }));
}

/** A number that changes with every pull that brought requests. */
export async function queryNewestRequests(store: Queryable, nowMs: number): Promise<number> {
  const recent = `"time" > make_timestamp(${Math.floor((nowMs - recentMs) * 1_000)})`;
  const [row = {}] = await store.query(`SELECT coalesce(max(ingest), 0) AS newest FROM raw.red WHERE ${recent}`);
  const [spans = {}] = (await hasRequests(store, "spans"))
    ? await store.query(`SELECT coalesce(max(ingest), 0) AS newest FROM raw.span_red WHERE ${recent}`)
    : [];
  return numberIn(row, "newest") + numberIn(spans, "newest");
}
