/** Lists the metrics that programs send. */

import type { MetricKind, MetricNameFact, MetricNamesRequest } from "../../model/metrics.ts";
import type { Resolved } from "../../model/services.ts";
import { booleanIn, isoTimeIn, numberIn, placeholders, type Queryable, type QueryParameter, textIn, textsIn } from "../tables/queryable.ts";
import { type PointSource, sentPoints } from "./metrics/choose-points.ts";
import { serviceTexts } from "./service-filter.ts";

export interface MetricNamesQuery extends Resolved<MetricNamesRequest> {
  nowMs: number;
  /** The table to read. Default: points as they were sent. */
  points?: PointSource;
}

const servicesShown = 5;

export async function queryMetricNames(store: Queryable, query: MetricNamesQuery): Promise<{ rows: MetricNameFact[]; total: number }> {
  const parts = [`"time" > make_timestamp(?)`];
  const parameters: QueryParameter[] = [Math.floor((query.nowMs - query.sinceMs) * 1_000)];
  if (query.service !== undefined) {
    const texts = serviceTexts(query.service);
    parts.push(`service IN (${placeholders(texts)})`);
    parameters.push(...texts);
  }
  if (query.contains !== undefined) {
    parts.push("contains(lower(name), lower(?))");
    parameters.push(query.contains);
  }
  if (query.agentIds !== undefined) {
    parts.push(query.agentIds.length === 0 ? "false" : `agent_id IN (${placeholders(query.agentIds)})`);
    parameters.push(...query.agentIds);
  }
  const rows = await store.query(
    `SELECT name, unit, kind, is_monotonic, count(DISTINCT (agent_id, series)) AS series, list_sort(list(DISTINCT service)) AS services,
       max("time") AS last_at, count(*) OVER () AS total
     FROM ${(query.points ?? sentPoints).sql} WHERE ${parts.join(" AND ")} GROUP BY name, unit, kind, is_monotonic
     ORDER BY name, unit, kind, is_monotonic LIMIT ${Math.max(0, Math.floor(query.limit))}`,
    parameters,
  );
  return {
    total: numberIn(rows[0] ?? {}, "total"),
    rows: rows.map((row) => {
      const services = textsIn(row, "services");
      return {
        name: textIn(row, "name"),
        unit: textIn(row, "unit"),
        kind: textIn(row, "kind") as MetricKind,
        isCounter: textIn(row, "kind") === "sum" && booleanIn(row, "is_monotonic"),
        services: services.slice(0, servicesShown),
        serviceCount: services.length,
        series: numberIn(row, "series"),
        lastAt: isoTimeIn(row, "last_at"),
      };
    }),
  };
}
