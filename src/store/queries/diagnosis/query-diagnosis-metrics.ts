/** Metrics sent by programs or scraped: the spread of each series in both periods. */

import type { DiagnosisTimesRequest, MeasureFact } from "../../../model/diagnosis.ts";
import { measureKindOf } from "../../../model/metrics.ts";
import { type Queryable, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";
import { spreadIn, spreadSql } from "./spread-sql.ts";

/** Keeps the series with the most points. */
const seriesMax = 20_000;
/** A longer gap between two counter readings gives no meaningful rate. */
const longestStepMs = 15 * 60_000;

/**
 * Gauges and deltas by value, cumulative counters by rate, histograms by mean. Series of one service are merged over its processes, because
 * processes come and go.
 */
export async function queryDiagnosisMetrics(store: Queryable, { before, after }: DiagnosisTimesRequest): Promise<MeasureFact[]> {
  const inTime = rangesSql('"time"', [...before, after]);
  const rows = await store.query(
    `WITH points AS (
       SELECT service, name, unit, attributes, series, kind, temporality, is_monotonic, "time", value, count, sum, ${rangesSql('"time"', [after])} AS is_after
       FROM raw.metric_point WHERE ${inTime} AND special IS NULL
     ), counted AS (
       SELECT *, lag(value) OVER w AS last_value, lag(count) OVER w AS last_count, lag(sum) OVER w AS last_sum, epoch("time" - lag("time") OVER w) AS step
       FROM points WHERE temporality = 'cumulative' AND (is_monotonic OR kind = 'histogram') WINDOW w AS (PARTITION BY series, is_after ORDER BY "time")
     ), readings AS (
       SELECT service, name, unit, attributes, is_after, value AS reading FROM points
       WHERE value IS NOT NULL AND (kind = 'gauge' OR (kind = 'sum' AND NOT (temporality = 'cumulative' AND is_monotonic)))
       UNION ALL SELECT service, name, unit, attributes, is_after, (value - last_value) / step FROM counted
       WHERE kind = 'sum' AND value >= last_value AND step > 0 AND step < ${longestStepMs / 1_000}
       UNION ALL SELECT service, name, unit, attributes, is_after, (sum - last_sum) / (count - last_count) FROM counted
       WHERE kind = 'histogram' AND count > last_count AND step < ${longestStepMs / 1_000}
       UNION ALL SELECT service, name, unit, attributes, is_after, sum / count FROM points WHERE kind = 'histogram' AND temporality = 'delta' AND count > 0
     )
     SELECT service, name, unit, attributes, ${spreadSql("reading", "NOT is_after")} AS before, ${spreadSql("reading", "is_after")} AS after
     FROM readings GROUP BY ALL HAVING count(*) FILTER (is_after) > 0 AND count(*) FILTER (NOT is_after) > 0
     ORDER BY count(*) DESC, service, name, attributes LIMIT ${seriesMax}`,
  );
  return rows.map((row) => {
    const [name, unit, attributes] = [textIn(row, "name"), textIn(row, "unit"), textIn(row, "attributes")];
    return {
      service: textIn(row, "service"),
      name,
      subject: attributes === "{}" ? "" : attributes,
      unit,
      kind: measureKindOf(name, unit).kind,
      before: spreadIn(row, "before"),
      after: spreadIn(row, "after"),
    };
  });
}
