/** Requests of services in the periods of a summary: sums and percentiles over all routes. */

import type { RequestSource, SummaryPeriod, SummaryRequestsFact } from "../../../model/summary.ts";
import { numberIn, type Queryable, type QueryParameter, type QueryRow, textIn } from "../../tables/queryable.ts";
import { percentileIn } from "../red-parts.ts";
import { requestPartsSql } from "../request-parts.ts";
import { namedFilter } from "../service-filter.ts";
import type { BaselineCache } from "./baseline-cache.ts";
import type { SummaryQuery } from "./query-summary.ts";
import type { PeriodRange, PeriodRanges } from "./summary-window.ts";

export function oneService({ service }: SummaryQuery): { where: string; parameters: Record<string, QueryParameter> } {
  if (service === undefined) return { where: "", parameters: {} };
  const { list, parameters } = namedFilter(service);
  return { where: ` AND service IN (${list})`, parameters };
}

/** Excludes TLS connections of which only the server name is known: they are not requests. */
const notRequests = "AND role IN ('server', 'client') AND protocol <> 'tls'";

export async function readRequests(
  store: Queryable,
  query: SummaryQuery & { withoutNow?: boolean },
  source: RequestSource,
  ranges: PeriodRanges | undefined,
  cache: BaselineCache | undefined,
): Promise<SummaryRequestsFact[]> {
  if (ranges === undefined) return [];
  const periods = (["now", "before", "yesterday"] as const).flatMap((period): PeriodOfRange[] => {
    const range = ranges[period];
    return range === undefined || (period === "now" && query.withoutNow) ? [] : [{ period, range }];
  });
  // For one service, all periods are read in one statement: planning costs more than reading.
  if (query.service !== undefined) return await readPeriods(store, query, source, periods);
  const settled = periods.filter(({ period, range }) => period !== "now" && range.resolution === "10m");
  const others = periods.filter((period) => !settled.includes(period));
  const key = JSON.stringify([source, settled]);
  const readSettled = (): Promise<SummaryRequestsFact[]> => readPeriods(store, query, source, settled);
  const parts = await Promise.all([
    others.length === 0 ? [] : readPeriods(store, query, source, others),
    settled.length === 0 ? [] : cache ? cache.requests.rows(key, query.nowMs, readSettled) : readSettled(),
  ]);
  return parts.flat();
}

interface PeriodOfRange {
  period: SummaryPeriod;
  range: PeriodRange;
}

async function readPeriods(
  store: Queryable,
  query: SummaryQuery,
  source: RequestSource,
  periods: readonly PeriodOfRange[],
): Promise<SummaryRequestsFact[]> {
  const { where, parameters } = oneService(query);
  const columns = "service, role, is_error, requests, duration_us, queue_us, queue_samples, duration_lo, duration_counts";
  const parts = periods.map(
    ({ range }, index) => `SELECT ${index}::UTINYINT AS period, ${columns} FROM (${requestPartsSql(source, range, notRequests + where)})`,
  );
  const key = "hash(period, service, role)";
  // Groups are joined by number; joining by name costs more than the rest of the query.
  const rows = await store.query(
    `WITH part AS NOT MATERIALIZED (${parts.join(" UNION ALL ")}),
     bucketed AS (
       SELECT gid, bucket, sum(n)::DOUBLE AS n FROM (
         SELECT ${key} AS gid, unnest(range(duration_lo, duration_lo + len(duration_counts))) AS bucket, unnest(duration_counts) AS n
         FROM part WHERE len(duration_counts) BETWEEN 1 AND 4096 AND duration_lo BETWEEN 0 AND 4096
       ) WHERE n > 0 GROUP BY gid, bucket
     ),
     running AS (
       SELECT gid, bucket, sum(n) OVER (PARTITION BY gid ORDER BY bucket) AS upto, sum(n) OVER (PARTITION BY gid) AS total FROM bucketed
     )
     SELECT g.*, d.p50, d.p95, d.p99 FROM (
       SELECT ${key} AS gid, period, service, role, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors,
         sum(duration_us) AS duration_us, sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples
       FROM part GROUP BY period, service, role
     ) g LEFT JOIN (
       SELECT gid, ${[50, 95, 99].map((share) => `min(bucket) FILTER (upto >= ${share / 100} * total) AS p${share}`).join(", ")} FROM running GROUP BY gid
     ) d ON d.gid = g.gid`,
    parameters,
  );
  return rows.flatMap((row): SummaryRequestsFact[] => {
    const found = periods[numberIn(row, "period")];
    if (!found) return [];
    return [
      {
        source,
        period: found.period,
        coveredMs: found.range.coveredMs,
        service: textIn(row, "service"),
        role: roleIn(row),
        ...amountsIn(row),
      },
    ];
  });
}

export function roleIn(row: QueryRow): "server" | "client" {
  return textIn(row, "role") === "client" ? "client" : "server";
}

/** Sums and percentiles from a row with `requests`, `errors`, `duration_us`, `queue_us`, `queue_samples` and the buckets of percentiles. */
export function amountsIn(
  row: QueryRow,
): Pick<SummaryRequestsFact, "requests" | "errors" | "meanUs" | "queueMeanUs" | "p50Us" | "p95Us" | "p99Us"> {
  const [requests, samples] = [numberIn(row, "requests"), numberIn(row, "queue_samples")];
  return {
    requests,
    errors: numberIn(row, "errors"),
    meanUs: requests > 0 ? numberIn(row, "duration_us") / requests : null,
    queueMeanUs: samples > 0 ? numberIn(row, "queue_us") / samples : null,
    p50Us: percentileIn(row, "p50", 0),
    p95Us: percentileIn(row, "p95", 0),
    p99Us: percentileIn(row, "p99", 0),
  };
}
