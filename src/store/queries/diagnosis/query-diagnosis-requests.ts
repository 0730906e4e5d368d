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

/** What a row of requests is about, besides its time and outcome. */
const keyColumns = ["source", "service", "role", "protocol", "server_port", "peer", "peer_address", "method", "route"];

/** `sums` of each key and step, and `keys` with both ends. Texts are read once per key: grouping every step by them would be most of the work. */
function sumsSql({ before, after }: DiagnosisTimesRequest, step: number): string {
  const seen = `(SELECT hash(${keyColumns.join(", ")}) AS key, *, ${rangesSql('"time"', [after])} AS is_after, time_bucket(INTERVAL ${step} SECONDS, "time") AS step FROM raw.red
      WHERE ${rangesSql('"time"', [...before, after])} AND protocol <> 'tls' AND service NOT IN ${ownServicesSql})`;
  return `sums AS MATERIALIZED (
       SELECT key, is_after, step, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors, sum(duration_us) AS duration_us,
         sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples
       FROM ${seen} GROUP BY key, is_after, step
     ),
     keys AS MATERIALIZED (
       SELECT *, hash(service) AS service_key, hash(service, who) AS call
       FROM (${withPeerSql(`SELECT key, ${keyColumns.map((name) => `any_value(${name}) AS ${name}`).join(", ")} FROM ${seen} GROUP BY key`)})
     )`;
}

/**
 * Rows of six kinds, by `what`: `route` (durations and failures), `rate`, `queued`, `calls` (rate of one caller to one callee), `outside` (time
 * of calls that the callee did not take) and `call` (the pair alone).
 */
export async function queryDiagnosisRequests(store: Queryable, times: DiagnosisTimesRequest): Promise<RequestEvidence> {
  const step = requestStepSeconds(times.after);
  const rows = await store.query(
    `WITH ${sumsSql(times, step)},
     used AS MATERIALIZED (
       SELECT *, hash(subject, protocol, method, route, is_external) AS subject_key FROM (
         SELECT key, service AS subject, protocol, method, route, false AS is_external FROM keys WHERE role = 'server'
         UNION ALL SELECT key, who, protocol, method, route, true FROM keys
         WHERE role = 'client' AND who NOT IN (SELECT service FROM keys WHERE role = 'server') AND who NOT IN ${ownServicesSql})
     ),
     steps AS (
       SELECT subject_key, is_after, step, sum(requests) AS requests, sum(errors) / sum(requests) AS failed, sum(duration_us) / sum(requests) AS mean_us
       FROM sums JOIN used USING (key) GROUP BY subject_key, is_after, step HAVING sum(requests) > 0
     ),
     routes AS (
       SELECT subject_key, ${spreadSql("mean_us", `NOT is_after AND requests >= ${minRequests}`)} AS before, ${spreadSql("mean_us", `is_after AND requests >= ${minRequests}`)} AS after,
         ${spreadSql("failed", "NOT is_after")} AS failed_before, ${spreadSql("failed", "is_after")} AS failed_after
       FROM steps GROUP BY subject_key
     ),
     served AS MATERIALIZED (
       SELECT service_key, ${spreadSql("rate", "NOT is_after")} AS rate_before, ${spreadSql("rate", "is_after")} AS rate_after,
         ${spreadSql("queued_us", "NOT is_after AND queued_us IS NOT NULL")} AS queued_before, ${spreadSql("queued_us", "is_after AND queued_us IS NOT NULL")} AS queued_after
       FROM (SELECT service_key, is_after, step, sum(requests) / ${step} AS rate, CASE WHEN sum(queue_samples) > 0 THEN sum(queue_us) / sum(queue_samples) END AS queued_us
         FROM sums JOIN keys USING (key) WHERE role = 'server' GROUP BY service_key, is_after, step)
       GROUP BY service_key
     ),
     called AS (
       SELECT call, ${spreadSql("rate", "NOT is_after")} AS before, ${spreadSql("rate", "is_after")} AS after
       FROM (SELECT call, is_after, step, sum(requests) / ${step} AS rate FROM sums JOIN keys USING (key) WHERE role = 'client' GROUP BY call, is_after, step) GROUP BY call
     ),
     calls AS (SELECT DISTINCT call, service, who FROM keys WHERE role = 'client'),
     ends AS MATERIALIZED (
       SELECT key, is_client, caller, callee, hash(caller, callee) AS pair FROM (
         SELECT key, role = 'client' AS is_client, if(is_client, service, who) AS caller, if(is_client, who, service) AS callee FROM keys)
     ),
     outside AS (
       SELECT pair, ${spreadSql("outside_us", "NOT is_after")} AS before, ${spreadSql("outside_us", "is_after")} AS after
       FROM (SELECT pair, is_after, step, greatest(0, sum(duration_us) FILTER (is_client) / sum(requests) FILTER (is_client) - sum(duration_us) FILTER (NOT is_client) / sum(requests) FILTER (NOT is_client)) AS outside_us
         FROM sums JOIN ends USING (key) GROUP BY pair, is_after, step
         HAVING sum(requests) FILTER (is_client) >= ${minRequests} AND sum(requests) FILTER (NOT is_client) >= ${minRequests})
       GROUP BY pair
     )
     SELECT 'route' AS what, subject AS service, protocol, method, route, is_external::VARCHAR AS other, before, after, failed_before, failed_after
     FROM routes JOIN (SELECT DISTINCT * EXCLUDE (key) FROM used) USING (subject_key)
     UNION ALL SELECT 'rate', service, '', '', '', '', rate_before, rate_after, [], []
     FROM served JOIN (SELECT DISTINCT service_key, service FROM keys) USING (service_key)
     UNION ALL SELECT 'queued', service, '', '', '', '', queued_before, queued_after, [], []
     FROM served JOIN (SELECT DISTINCT service_key, service FROM keys) USING (service_key) WHERE queued_before[1] + queued_after[1] > 0
     UNION ALL SELECT 'calls', service, '', '', '', who, before, after, [], [] FROM called JOIN calls USING (call)
     UNION ALL SELECT 'outside', caller, '', '', '', callee, before, after, [], [] FROM outside JOIN (SELECT DISTINCT pair, caller, callee FROM ends) USING (pair)
     UNION ALL SELECT 'call', service, '', '', '', who, [], [], [], [] FROM calls
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
