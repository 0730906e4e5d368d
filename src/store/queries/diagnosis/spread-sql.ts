import type { Spread } from "../../../model/diagnosis.ts";
import type { QueryRow } from "../../tables/queryable.ts";

/** SQL for a list of the count and five quantiles of the matching rows; read it with `spreadIn`. */
export function spreadSql(value: string, condition: string): string {
  return `[count(*) FILTER (${condition})] || coalesce(quantile_cont(${value}, [0.05, 0.25, 0.5, 0.75, 0.95]) FILTER (${condition}), [0, 0, 0, 0, 0])`;
}

export function spreadIn(row: QueryRow, name: string): Spread {
  const value = row[name];
  const [count = 0, q05 = 0, q25 = 0, median = 0, q75 = 0, q95 = 0] = Array.isArray(value) ? value.map(Number) : [];
  return { count, q05, q25, median, q75, q95 };
}
