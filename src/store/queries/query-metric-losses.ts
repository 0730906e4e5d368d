import type { MetricLossFact } from "../../model/metrics.ts";
import { numberIn, placeholders, type Queryable, textIn } from "../tables/queryable.ts";

/** Most first. */
export async function queryMetricLosses(
  store: Queryable,
  query: { agentIds?: readonly string[]; sinceMs: number; nowMs: number },
): Promise<MetricLossFact[]> {
  const { agentIds } = query;
  const chosen = agentIds === undefined ? "" : `AND agent_id IN (${placeholders(["", ...agentIds])})`;
  const rows = await store.query(
    `SELECT service, loss, sum("count")::DOUBLE AS lost FROM metric_loss WHERE "time" >= make_timestamp(?) ${chosen}
     GROUP BY ALL ORDER BY lost DESC, service, loss LIMIT 20`,
    [Math.floor((query.nowMs - query.sinceMs) * 1_000), ...(agentIds === undefined ? [] : ["", ...agentIds])],
  );
  return rows.map((row) => ({ service: textIn(row, "service"), loss: textIn(row, "loss"), count: numberIn(row, "lost") }));
}
