/** Requests seen by kernel hooks, by route, in steps of 30 s. A peer that only callers observed is external. */

import {
  type DiagnosisTimesRequest,
  type MeasureFact,
  ownServicesSql,
  requestMeasures,
  requestStepSeconds,
} from "../../../model/diagnosis.ts";
import { routeText } from "../../../model/route-text.ts";
import { isTelemetryExport, isWaitingRequest } from "../../../model/waiting-requests.ts";
import { type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { withPeerSql } from "../red-parts.ts";
import { rangesSql } from "./ranges-sql.ts";
import { spreadIn, spreadSql } from "./spread-sql.ts";

export interface RequestEvidence {
  measures: MeasureFact[];
  calls: { caller: string; callee: string }[];
  externals: string[];
}

/** Steps with fewer requests have no typical duration. */
const minRequests = 3;
const routesMax = 5_000;

/**
 * Rows of five kinds, by `what`: `route` (durations and failures), `rate`, `queued`, `calls` (rate of one caller to one callee) and `call`
 * (the pair alone).
 */
export async function queryDiagnosisRequests(store: Queryable, { before, after }: DiagnosisTimesRequest): Promise<RequestEvidence> {
  const isAfter = rangesSql('"time"', [after]);
  const step = requestStepSeconds(after);
  const views = `SELECT source, service, role, protocol, server_port, peer, peer_address, method, route, is_after, step,
      sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors, sum(duration_us) AS duration_us, sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples
    FROM (SELECT *, ${isAfter} AS is_after, time_bucket(INTERVAL ${step} SECONDS, "time") AS step FROM raw.red
      WHERE ${rangesSql('"time"', [...before, after])} AND protocol <> 'tls' AND service NOT IN ${ownServicesSql}) GROUP BY ALL`;
  const rows = await store.query(
    `WITH seen AS MATERIALIZED (${withPeerSql(views)}),
     served AS (SELECT DISTINCT service FROM seen WHERE role = 'server'),
     used AS (
       SELECT service AS subject, '' AS caller, protocol, method, route, is_after, step, requests, errors, duration_us, false AS is_external FROM seen WHERE role = 'server'
       UNION ALL SELECT who, service, protocol, method, route, is_after, step, requests, errors, duration_us, true FROM seen
       WHERE role = 'client' AND who NOT IN (SELECT service FROM served) AND who NOT IN ${ownServicesSql}
     ),
     steps AS (
       SELECT subject, protocol, method, route, is_external, is_after, step, sum(requests) AS requests, sum(errors) / sum(requests) AS failed, sum(duration_us) / sum(requests) AS mean_us
       FROM used GROUP BY ALL HAVING sum(requests) > 0
     )
     SELECT 'route' AS what, subject AS service, protocol, method, route, is_external::VARCHAR AS other,
       ${spreadSql("mean_us", `NOT is_after AND requests >= ${minRequests}`)} AS before, ${spreadSql("mean_us", `is_after AND requests >= ${minRequests}`)} AS after,
       ${spreadSql("failed", "NOT is_after")} AS failed_before, ${spreadSql("failed", "is_after")} AS failed_after
     FROM steps GROUP BY subject, protocol, method, route, is_external
     UNION ALL SELECT 'rate', subject, '', '', '', '', ${spreadSql("rate", "NOT is_after")}, ${spreadSql("rate", "is_after")}, [], []
     FROM (SELECT subject, is_after, step, sum(requests) / ${step} AS rate FROM steps WHERE NOT is_external GROUP BY ALL) GROUP BY subject
     UNION ALL SELECT 'queued', service, '', '', '', '', ${spreadSql("queued_us", "NOT is_after")}, ${spreadSql("queued_us", "is_after")}, [], []
     FROM (SELECT service, is_after, step, sum(queue_us) / sum(queue_samples) AS queued_us FROM seen WHERE role = 'server' GROUP BY ALL HAVING sum(queue_samples) > 0) GROUP BY service
     UNION ALL SELECT 'calls', service, '', '', '', who, ${spreadSql("rate", "NOT is_after")}, ${spreadSql("rate", "is_after")}, [], []
     FROM (SELECT service, who, is_after, step, sum(requests) / ${step} AS rate FROM seen WHERE role = 'client' GROUP BY ALL) GROUP BY service, who
     UNION ALL SELECT 'outside', caller, '', '', '', callee, ${spreadSql("outside_us", "NOT is_after")}, ${spreadSql("outside_us", "is_after")}, [], []
     FROM (SELECT caller, callee, is_after, step, greatest(0, sum(duration_us) FILTER (is_client) / sum(requests) FILTER (is_client) - sum(duration_us) FILTER (NOT is_client) / sum(requests) FILTER (NOT is_client)) AS outside_us
       FROM (SELECT role = 'client' AS is_client, if(is_client, service, who) AS caller, if(is_client, who, service) AS callee, is_after, step, requests, duration_us FROM seen)
       GROUP BY caller, callee, is_after, step HAVING sum(requests) FILTER (is_client) >= ${minRequests} AND sum(requests) FILTER (NOT is_client) >= ${minRequests}) GROUP BY caller, callee
     UNION ALL SELECT DISTINCT 'call', service, '', '', '', who, [], [], [], [] FROM seen WHERE role = 'client'
     ORDER BY ALL LIMIT ${routesMax}`,
  );
  return evidenceIn(rows);
}

function evidenceIn(rows: readonly QueryRow[]): RequestEvidence {
  const found: RequestEvidence = { measures: [], calls: [], externals: [] };
  const externals = new Set<string>();
  for (const row of rows) {
    const [what, service, other] = [textIn(row, "what"), textIn(row, "service"), textIn(row, "other")];
    if (what === "call") {
      found.calls.push({ caller: service, callee: other });
      continue;
    }
    const [before, after] = [spreadIn(row, "before"), spreadIn(row, "after")];
    if (what === "queued") {
      found.measures.push({ service, name: requestMeasures.queued, subject: "", unit: "us", kind: "traffic", before, after });
      continue;
    }
    if (what === "calls") {
      found.measures.push({ service, name: requestMeasures.calls, subject: other, unit: "/s", kind: "traffic", before, after });
      continue;
    }
    if (what === "outside") {
      found.measures.push({ service, name: requestMeasures.outside, subject: other, unit: "us", kind: "traffic", before, after });
      continue;
    }
    if (what === "rate") {
      found.measures.push({ service, name: requestMeasures.rate, subject: "", unit: "/s", kind: "traffic", before, after });
      continue;
    }
    const kind = { protocol: textIn(row, "protocol"), method: textIn(row, "method"), route: textIn(row, "route") };
    if (isTelemetryExport(kind)) continue;
    if (other === "true") externals.add(service);
    const subject = routeText(kind.method, kind.route);
    const shared = { service, subject };
    if (!isWaitingRequest(kind))
      found.measures.push({ ...shared, name: requestMeasures.duration, unit: "us", kind: "latency", before, after });
    found.measures.push({
      ...shared,
      name: requestMeasures.failed,
      unit: "ratio",
      kind: "errors",
      before: spreadIn(row, "failed_before"),
      after: spreadIn(row, "failed_after"),
    });
  }
  return { ...found, externals: [...externals] };
}
