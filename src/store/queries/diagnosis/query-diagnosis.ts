/** Everything that a diagnosis compares, from all signals. */

import type { ChangeFact, DiagnosisFacts, DiagnosisTimesRequest, MeasureFact } from "../../../model/diagnosis.ts";
import type { SegmentReader } from "../../segments/segment-source.ts";
import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { queryDiagnosisLoad } from "./query-diagnosis-load.ts";
import { queryDiagnosisMetrics } from "./query-diagnosis-metrics.ts";
import { queryDiagnosisRequests } from "./query-diagnosis-requests.ts";
import { queryDiagnosisSpans } from "./query-diagnosis-spans.ts";
import { rangesSql } from "./ranges-sql.ts";

/** Changes before the start of the trouble that may have to do with it. */
const changesBeforeMs = 15 * 60_000;
const changeKinds = ["deployment", "service-restarted", "binary-updated", "config-changed", "egress-new", "oom-kill"];
const changesMax = 200;
const edgesMax = 20_000;

export async function queryDiagnosis(
  store: Queryable & { readonly segments: SegmentReader | undefined },
  times: DiagnosisTimesRequest,
): Promise<DiagnosisFacts> {
  const [metrics, requests, load, spans, edges, changes] = await Promise.all([
    queryDiagnosisMetrics(store, times),
    queryDiagnosisRequests(store, times),
    queryDiagnosisLoad(store, times),
    queryDiagnosisSpans(store, times),
    querySpanCalls(store, times),
    queryChanges(store, times),
  ]);
  return {
    ...times,
    measures: [...metrics, ...requests.measures, ...load],
    ...spans,
    calls: [...edges, ...requests.calls],
    externals: externalsOf(requests.externals, metrics, load),
    changes,
  };
}

/** Not what has processes here, whether or not their requests were seen. */
function externalsOf(peers: readonly string[], metrics: readonly MeasureFact[], load: readonly MeasureFact[]): string[] {
  const own = new Set(load.map(({ service }) => service));
  const named = metrics.map(({ service }) => service).filter(isHostName);
  return [...new Set([...peers, ...named])].filter((service) => !own.has(service));
}

/** A metric whose sender is named like a host is what a client measured of a peer. */
function isHostName(service: string): boolean {
  return /_remote$|^[\w-]+(?:\.[\w-]+)+$/i.test(service);
}

async function querySpanCalls(store: Queryable, { before, after }: DiagnosisTimesRequest): Promise<{ caller: string; callee: string }[]> {
  const rows = await store.query(
    `SELECT DISTINCT client, server FROM raw.span_edge WHERE ${rangesSql('"time"', [...before, after])} ORDER BY client, server LIMIT ${edgesMax}`,
  );
  return rows.map((row) => ({ caller: textIn(row, "client"), callee: textIn(row, "server") }));
}

async function queryChanges(store: Queryable, { after }: DiagnosisTimesRequest): Promise<ChangeFact[]> {
  const reach = { fromMs: after.fromMs - changesBeforeMs, untilMs: after.untilMs };
  const rows = await store.query(
    `SELECT epoch_ms("time") AS at, service_id AS service, kind, message FROM events
     WHERE service_id IS NOT NULL AND kind IN (${changeKinds.map((kind) => `'${kind}'`).join(", ")}) AND ${rangesSql('"time"', [reach])}
     ORDER BY "time" DESC, service_id, message LIMIT ${changesMax}`,
  );
  return rows.map((row) => ({
    timeMs: numberIn(row, "at"),
    service: textIn(row, "service"),
    kind: textIn(row, "kind"),
    message: textIn(row, "message"),
  }));
}
