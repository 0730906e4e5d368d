/** Store queries for the service health monitor. */

import { type Queryable, textIn } from "../../tables/queryable.ts";

export const healthEventKinds = ["service-recovered", "service-degraded", "service-critical"] as const;

/** The last reported health of each service. */
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
