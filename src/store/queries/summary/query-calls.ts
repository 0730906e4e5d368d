/** Calls of services as their callers measured them: now, and in the half hour before. Only for services with a problem. */

import type { CallAmounts, SummaryCallFact } from "../../../model/summary.ts";
import { isTelemetryExport, isWaitingRequest } from "../../../model/waiting-requests.ts";
import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { withPeerSql } from "../red-parts.ts";
import { requestViewsSql } from "../request-parts.ts";

export interface CallsQuery {
  services: readonly string[];
  nowMs: number;
}

const minuteMs = 60_000;
const nowMs = minuteMs;
const gapMs = 90_000;
const beforeMs = 30 * minuteMs;
const callsMax = 5_000;

/** Calls by these services and calls to them. Excludes telemetry exports and requests that wait on purpose. */
export async function queryCalls(store: Queryable, query: CallsQuery): Promise<SummaryCallFact[]> {
  if (query.services.length === 0) return [];
  const parameters = Object.fromEntries(query.services.map((name, index) => [`service${index}`, name]));
  const list = query.services.map((_, index) => `$service${index}`).join(", ");
  const where = `AND role = 'client' AND protocol <> 'tls' AND (service IN (${list}) OR peer IN (${list}))`;
  const endMs = Math.floor((query.nowMs - gapMs) / minuteMs) * minuteMs;
  const now = requestViewsSql({ startMs: query.nowMs - nowMs, endMs: Number.POSITIVE_INFINITY, resolution: "raw" }, where);
  const before = requestViewsSql({ startMs: endMs - beforeMs, endMs, resolution: "1m" }, where);
  const views = `SELECT is_now, source, service, role, protocol, server_port, peer, peer_address, method, route, sum(requests) AS requests,
      coalesce(sum(requests) FILTER (is_error), 0) AS errors, sum(duration_us) AS duration_us
    FROM (SELECT true AS is_now, * FROM (${now}) UNION ALL SELECT false, * FROM (${before})) GROUP BY ALL`;
  const rows = await store.query(
    `SELECT is_now, service, who, protocol, method, route, sum(requests) AS requests, sum(errors) AS errors, sum(duration_us) AS duration_us
     FROM (${withPeerSql(views)}) GROUP BY ALL ORDER BY requests DESC, service, who, method, route LIMIT ${callsMax}`,
    parameters,
  );
  const calls = new Map<string, SummaryCallFact>();
  for (const row of rows) {
    const kind = { protocol: textIn(row, "protocol"), method: textIn(row, "method"), route: textIn(row, "route") };
    if (isTelemetryExport(kind) || isWaitingRequest(kind)) continue;
    const [service, callee] = [textIn(row, "service"), textIn(row, "who")];
    const key = JSON.stringify([service, callee]);
    const call = calls.get(key) ?? { service, callee, now: nothing(), before: nothing() };
    calls.set(key, call);
    const amounts = row["is_now"] === true ? call.now : call.before;
    amounts.requests += numberIn(row, "requests");
    amounts.errors += numberIn(row, "errors");
    amounts.durationUs += numberIn(row, "duration_us");
  }
  return [...calls.values()];
}

const nothing = (): CallAmounts => ({ requests: 0, errors: 0, durationUs: 0 });
