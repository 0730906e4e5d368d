/** Served requests per route for several time ranges, to evaluate objectives. */

import { mergeHistograms, type SparseHistogram } from "../../../base/latency-histogram.ts";
import type { TimeRange } from "../../../model/diagnosis.ts";
import type { RequestTotals } from "../../../model/incident.ts";
import type { RequestSource } from "../../../model/summary.ts";
import { numberIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { hasRequests, requestPartsSql } from "../request-parts.ts";

export interface RequestTotalsQuery {
  services: readonly string[];
  ranges: readonly TimeRange[];
}

/** Longer ranges are read from one-minute sums, so their ends may be off by up to a minute. */
const rawMaxMs = 10 * 60_000;
const rowsMax = 50_000;

/** Counts by hooks, or by spans for a service whose requests hooks do not see. */
export async function queryRequestTotals(store: Queryable, query: RequestTotalsQuery): Promise<RequestTotals[]> {
  if (query.services.length === 0 || query.ranges.length === 0) return [];
  const byHooks = await readTotals(store, query, "hooks");
  const seen = new Set(byHooks.map(({ service }) => service));
  const unseen = query.services.filter((service) => !seen.has(service));
  if (unseen.length === 0 || !(await hasRequests(store, "spans"))) return byHooks;
  return [...byHooks, ...(await readTotals(store, { ...query, services: unseen }, "spans"))];
}

async function readTotals(store: Queryable, { services, ranges }: RequestTotalsQuery, source: RequestSource): Promise<RequestTotals[]> {
  const parameters = Object.fromEntries(services.map((name, index) => [`service${index}`, name]));
  const where = `AND role = 'server' AND protocol <> 'tls' AND service IN (${services.map((_, index) => `$service${index}`).join(", ")})`;
  const parts = ranges.map(({ fromMs, untilMs }, index) => {
    const resolution = untilMs - fromMs <= rawMaxMs ? "raw" : "1m";
    return `SELECT ${index} AS range, service, protocol, method, route, is_error, requests, duration_lo, duration_counts
      FROM (${requestPartsSql(source, { startMs: fromMs, endMs: untilMs, resolution }, where)})`;
  });
  const rows = await store.query(`${parts.join(" UNION ALL ")} LIMIT ${rowsMax}`, parameters);
  const totals = new Map<string, RequestTotals>();
  for (const row of rows) {
    const one = totalsIn(row);
    const key = JSON.stringify([one.range, one.service, one.protocol, one.method, one.route]);
    const known = totals.get(key);
    if (!known) {
      totals.set(key, one);
      continue;
    }
    known.requests += one.requests;
    known.errors += one.errors;
    known.durations = mergeHistograms(known.durations, one.durations);
  }
  return [...totals.values()];
}

function totalsIn(row: QueryRow): RequestTotals {
  const requests = numberIn(row, "requests");
  const counts = Array.isArray(row["duration_counts"]) ? row["duration_counts"].map(Number) : [];
  const durations: SparseHistogram = { lo: numberIn(row, "duration_lo"), counts };
  return {
    range: numberIn(row, "range"),
    service: textIn(row, "service"),
    protocol: textIn(row, "protocol"),
    method: textIn(row, "method"),
    route: textIn(row, "route"),
    requests,
    errors: row["is_error"] === true ? requests : 0,
    durations,
  };
}
