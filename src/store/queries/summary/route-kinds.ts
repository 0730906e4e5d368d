/** Kinds of requests that verdicts distinguish, and the SQL for percentiles of their windows. */

import { bucketMiddleNs, fineLayout } from "../../../base/latency-histogram.ts";
import { numberOrNullIn, type QueryParameter, type QueryRow, textIn } from "../../tables/queryable.ts";
import { roleIn } from "./period-requests.ts";

/** Rows of a window arrive within this time after its end. Newer windows are not used for baselines. */
export const recentMs = 90_000;
/** Minimum number of full windows for a baseline. */
export const minWindows = 2;

const notRequests = "AND role IN ('server', 'client') AND protocol <> 'tls'";
export const kind = "service, role, protocol, method, route";

export interface RouteKind {
  service: string;
  role: "server" | "client";
  protocol: string;
  method: string;
  route: string;
}

export const idOf = ({ service, role, protocol, method, route }: RouteKind): string =>
  JSON.stringify([service, role, protocol, method, route]);

export const kindIn = (row: QueryRow): RouteKind => ({
  service: textIn(row, "service"),
  role: roleIn(row),
  protocol: textIn(row, "protocol"),
  method: textIn(row, "method"),
  route: textIn(row, "route"),
});

interface Chosen {
  where: string;
  parameters: Record<string, QueryParameter>;
}

export function chosen({ services }: { services?: readonly string[] }): Chosen {
  if (services === undefined) return { where: notRequests, parameters: {} };
  const parameters = Object.fromEntries(services.map((name, index) => [`service${index}`, name]));
  return { where: `${notRequests} AND service IN (${services.map((_, index) => `$service${index}`).join(", ") || "NULL"})`, parameters };
}

/** Counts by group and bucket. */
export function bucketedSql(keys: string, from: string): string {
  return `SELECT ${keys}, bucket, sum(n)::DOUBLE AS n FROM (
      SELECT ${keys}, unnest(range(duration_lo, duration_lo + len(duration_counts))) AS bucket, unnest(duration_counts) AS n
      FROM ${from} WHERE len(duration_counts) BETWEEN 1 AND 4096 AND duration_lo BETWEEN 0 AND 4096
    ) WHERE n > 0 GROUP BY ${keys}, bucket`;
}

/** From counts by group and bucket: the bucket of each share, as `p<share>`. */
export function sharesSql(key: string, counted: string, shares: readonly number[]): string {
  const picked = shares.map((share) => `min(bucket) FILTER (upto >= ${share / 100} * total) AS p${share}`).join(", ");
  return `SELECT ${key}, ${picked} FROM (
      SELECT ${key}, bucket, sum(n) OVER (PARTITION BY ${key} ORDER BY bucket) AS upto, sum(n) OVER (PARTITION BY ${key}) AS total FROM (${counted})
    ) GROUP BY ${key}`;
}

export const bucketUs = (row: QueryRow, name: string): number | null => {
  const bucket = numberOrNullIn(row, name);
  return bucket === null ? null : bucketMiddleNs(fineLayout, Math.min(bucket, fineLayout.bucketCount - 1)) / 1_000;
};
