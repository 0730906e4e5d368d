import type { MetricLossFact } from "../../model/metrics.ts";
import type { TrafficLossFact } from "../../model/red.ts";
import { numberIn, placeholders, type Queryable, textIn, textOrNullIn } from "../tables/queryable.ts";

interface LossesQuery {
  agentIds?: readonly string[];
  sinceMs: number;
  nowMs: number;
}

/** Requests and events that hooks missed, by agent and kind. */
export async function queryTrafficLosses(store: Queryable, query: LossesQuery): Promise<TrafficLossFact[]> {
  const { agentIds } = query;
  const chosen = agentIds === undefined ? "" : `AND agent_id IN (${placeholders(["", ...agentIds])})`;
  const rows = await store.query(
    `SELECT agent_id, loss, service, detail, sum("count")::DOUBLE AS lost FROM traffic_loss WHERE "time" >= make_timestamp(?) ${chosen} GROUP BY ALL ORDER BY ALL`,
    [Math.floor((query.nowMs - query.sinceMs) * 1_000), ...(agentIds === undefined ? [] : ["", ...agentIds])],
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    loss: textIn(row, "loss"),
    count: numberIn(row, "lost"),
    service: textOrNullIn(row, "service"),
    detail: textOrNullIn(row, "detail"),
  }));
}

/** Dropped metric points by service and kind, most first. */
export async function queryMetricLosses(store: Queryable, query: LossesQuery): Promise<MetricLossFact[]> {
  const { agentIds } = query;
  const chosen = agentIds === undefined ? "" : `AND agent_id IN (${placeholders(["", ...agentIds])})`;
  const rows = await store.query(
    `SELECT service, loss, sum("count")::DOUBLE AS lost FROM metric_loss WHERE "time" >= make_timestamp(?) ${chosen}
     GROUP BY ALL ORDER BY lost DESC, service, loss LIMIT 20`,
    [Math.floor((query.nowMs - query.sinceMs) * 1_000), ...(agentIds === undefined ? [] : ["", ...agentIds])],
  );
  return rows.map((row) => ({ service: textIn(row, "service"), loss: textIn(row, "loss"), count: numberIn(row, "lost") }));
}
