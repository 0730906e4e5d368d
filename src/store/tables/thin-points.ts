/**
 * Rolls up metric points into fewer points. Cumulative totals keep the last point of each interval and the last before each restart, so
 * that increases between any two of them are unchanged. Deltas and their buckets are summed. Gauges keep the last value, with mean, minimum
 * and maximum of the merged points. Points that cannot be merged without loss are kept.
 */

import { columnTypeOf, type Signal } from "../signals/define-signal.ts";

/** Exponential histograms whose first buckets are further apart than this are not merged: the result would be mostly zeros. */
const offsetsApart = 1_024;

const quoted = (name: string): string => `"${name}"`;

/** Parameters: $ingest and $stored_at of the new rows, and the range $after to $ingest of raw rows to consume. */
export function thinPointsSql(database: string, signal: Signal, target: string, bucketMinutes: number): string {
  const own = ["seq", "time", "mono_ms", ...Object.keys(signal.columns)];
  const names = ["source", ...own].map(quoted).join(", ");
  /** One row per group. The given columns are computed; others are equal in all rows or taken from the last point. */
  const merged = (given: Record<string, string>, from: string, keys: string): string => {
    const columns = own.map((name) => {
      const sql = given[name] ?? (name === "seq" ? "max(seq)" : `arg_max("${name}", ("time", seq))`);
      // arg_max skips nulls, which would take a value from another point.
      const safe = given[name] === undefined && isNullable(signal, name) ? `arg_max({v: "${name}"}, ("time", seq)).v` : sql;
      return `${safe} AS "${name}"`;
    });
    return `SELECT source, ${columns.join(", ")} FROM point WHERE how = '${from}' GROUP BY ${keys}`;
  };
  const kinds = `CASE WHEN special IS NOT NULL THEN 'kept'
      WHEN kind = 'gauge' OR (kind = 'sum' AND NOT is_monotonic AND temporality IS DISTINCT FROM 'delta') THEN 'gauge'
      WHEN kind = 'sum' AND temporality = 'delta' THEN 'delta'
      WHEN kind = 'histogram' AND temporality = 'delta' AND json_valid(counts) THEN 'buckets'
      WHEN kind = 'exponential_histogram' AND temporality = 'delta' AND json_valid(coalesce(positive_counts, '[]')) AND json_valid(coalesce(negative_counts, '[]'))
        THEN 'exponential'
      WHEN temporality = 'delta' THEN 'kept' ELSE 'total' END`;
  const totals = `SELECT ${names} FROM (
      SELECT *, lead(part) OVER next AS next_part, lead(start_time) OVER next AS next_start, lead("value") OVER next AS next_value,
        lead("count") OVER next AS next_count, row_number() OVER next AS place
      FROM point WHERE how = 'total' WINDOW next AS (PARTITION BY source, series ORDER BY "time", seq)
    ) t WHERE next_part IS DISTINCT FROM part OR next_start IS DISTINCT FROM start_time OR next_value < "value" OR next_count < "count"
      -- Without a start time, counting begins at the first point ever.
      OR (place = 1 AND start_time IS NULL AND NOT EXISTS (SELECT 1 FROM known k WHERE k.source = t.source AND k.series = t.series))`;
  const addedCounts = `to_json(list_transform(range(1, len(first(CAST(counts AS UBIGINT[]))) + 1),
      lambda i: list_sum(list_transform(list(CAST(counts AS UBIGINT[])), lambda c: c[i]))::UBIGINT))::VARCHAR`;
  const histogram = { count: `sum("count")::BIGINT`, sum: `sum("sum")`, min: `min("min")`, max: `max("max")` };
  const span = { time: `max("time")`, start_time: "min(start_time)" };
  return `INSERT INTO "${database}".rollup."${target}" (source, ingest, stored_at, ${own.map(quoted).join(", ")})
    WITH point AS MATERIALIZED (
      SELECT *, ${kinds} AS how,
        -- Amounts up to the end of an interval belong to it; a value at exactly that moment belongs to the next one.
        time_bucket(INTERVAL ${bucketMinutes} MINUTE, CASE WHEN how = 'gauge' THEN "time" ELSE "time" - INTERVAL 1 MICROSECOND END) AS part
      FROM "${database}".raw."${signal.name}" WHERE ingest > $after AND ingest <= $ingest
    ), known AS (SELECT DISTINCT source, series FROM "${database}".rollup."${target}" WHERE stored_at > make_timestamp($stored_at) - INTERVAL 1 HOUR)
    SELECT source, $ingest, make_timestamp($stored_at), ${own.map(quoted).join(", ")} FROM (
      SELECT ${names} FROM point WHERE how = 'kept'
      UNION ALL ${totals}
      UNION ALL ${merged({ count: "count(*)", sum: `sum("value")`, min: `min("value")`, max: `max("value")` }, "gauge", "source, series, part")}
      UNION ALL ${merged({ ...span, value: `sum("value")` }, "delta", "source, series, part")}
      UNION ALL ${merged(
        { ...span, ...histogram, counts: addedCounts },
        "buckets",
        "source, series, part, bounds, json_array_length(counts)",
      )}
      UNION ALL ${merged(
        { ...span, ...histogram, zero_count: "sum(zero_count)::BIGINT", ...addedSide("positive"), ...addedSide("negative") },
        "exponential",
        `source, series, part, scale, zero_threshold, positive_offset // ${offsetsApart}, negative_offset // ${offsetsApart}`,
      )}
    ) ORDER BY "time"`;
}

/** Buckets of one scale have the same bounds at any offset, so they are added one by one, from the lowest to the highest of all points. */
function addedSide(side: "positive" | "negative"): Record<string, string> {
  const [offset, counts] = [`${side}_offset`, `CAST(coalesce(${side}_counts, '[]') AS UBIGINT[])`];
  const filled = `FILTER (len(${counts}) > 0)`;
  const lowest = `coalesce(min(${offset}) ${filled}, 0)`;
  const countAt = "CASE WHEN i >= p.o THEN coalesce(p.c[i - p.o + 1], 0) ELSE 0 END";
  return {
    [offset]: lowest,
    [`${side}_counts`]: `to_json(list_transform(range(${lowest}, coalesce(max(${offset} + len(${counts})) ${filled}, 0)),
      lambda i: list_sum(list_transform(list({o: ${offset}, c: ${counts}}) ${filled}, lambda p: ${countAt}))::UBIGINT))::VARCHAR`,
  };
}

function isNullable(signal: Signal, name: string): boolean {
  const spec = signal.columns[name];
  return spec !== undefined && columnTypeOf(spec).nullable;
}
