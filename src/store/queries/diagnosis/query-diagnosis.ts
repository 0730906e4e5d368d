/** Collects all facts that a diagnosis compares, from every signal. */

import type { ChangeFact, DiagnosisFacts, DiagnosisTimesRequest, MeasureFact, OperationFact } from "../../../model/diagnosis.ts";
import type { SegmentReader } from "../../segments/segment-source.ts";
import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { queryDiagnosisHosts } from "./query-diagnosis-hosts.ts";
import { queryDiagnosisLoad } from "./query-diagnosis-load.ts";
import { queryDiagnosisMetrics } from "./query-diagnosis-metrics.ts";
import { queryDiagnosisRequests } from "./query-diagnosis-requests.ts";
import { queryDiagnosisSpans } from "./query-diagnosis-spans.ts";
import { rangesSql } from "./ranges-sql.ts";

/** Changes up to this long before the onset may be related. */
const changesBeforeMs = 15 * 60_000;
const changeKinds = ["deployment", "service-restarted", "binary-updated", "config-changed", "egress-new", "oom-kill", "service-exited"];
const changesMax = 200;
const edgesMax = 20_000;

export async function queryDiagnosis(
  store: Queryable & { readonly segments: SegmentReader | undefined },
  times: DiagnosisTimesRequest,
): Promise<DiagnosisFacts> {
  const [metrics, requests, load, spans, edges, changes, hosts] = await Promise.all([
    queryDiagnosisMetrics(store, times),
    queryDiagnosisRequests(store, times),
    queryDiagnosisLoad(store, times),
    queryDiagnosisSpans(store, times),
    querySpanCalls(store, times),
    queryChanges(store, times),
    queryDiagnosisHosts(store, times),
  ]);
  const calls = [...edges, ...requests.calls];
  return {
    ...times,
    measures: [...metrics, ...requests.measures, ...load],
    ...spans,
    calls,
    externals: externalsOf(requests.externals, { metrics, load, operations: spans.operations, calls }),
    changes,
    ...hosts,
  };
}

/**
 * Peers without telemetry that call no service, such as managed databases. Excludes services with local processes, whether or not their
 * requests were seen. Metrics under such a name were measured by a caller.
 */
function externalsOf(
  peers: readonly string[],
  {
    metrics,
    load,
    operations,
    calls,
  }: { metrics: readonly MeasureFact[]; load: readonly MeasureFact[]; operations: readonly OperationFact[]; calls: readonly Call[] },
): string[] {
  const own = new Set([
    ...load.map(({ service }) => service),
    ...operations.map(({ service }) => service),
    ...calls.map(({ caller }) => caller),
  ]);
  const resources = new Set(metrics.filter(({ kind }) => kind === "resource").map(({ service }) => service));
  const called = new Set(calls.map(({ callee }) => callee));
  const onlyMeasured = metrics.map(({ service }) => service).filter((service) => called.has(service) && isHostName(service));
  return [...new Set([...peers, ...onlyMeasured])].filter((service) => !own.has(service) && !resources.has(service));
}

/** A metric sender with a dotted name is an address that a client measured. */
function isHostName(service: string): boolean {
  return /^[\w-]+(?:\.[\w-]+)+$/i.test(service);
}

interface Call {
  caller: string;
  callee: string;
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
