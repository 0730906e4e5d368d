import type { TimeRange } from "../../../model/diagnosis.ts";

/** SQL condition: a TIMESTAMP column is in one of the ranges. */
export function rangesSql(column: string, ranges: readonly TimeRange[]): string {
  if (ranges.length === 0) return "false";
  const one = ({ fromMs, untilMs }: TimeRange): string =>
    `(${column} >= make_timestamp(${Math.floor(fromMs * 1_000)}) AND ${column} < make_timestamp(${Math.floor(untilMs * 1_000)}))`;
  return `(${ranges.map(one).join(" OR ")})`;
}
