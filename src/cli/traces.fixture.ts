/** Sample answers about traces, for tests of commands. */

import type { TraceSummary } from "../model/traces.ts";
import type { TraceSpan, TracesResult, WholeTrace } from "../tools/index.ts";

export const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const ms = 1_000_000;

/** Times in milliseconds. */
export function traceSpan(depth: number, name: string, startMs: number, durationMs: number, change: Partial<TraceSpan> = {}): TraceSpan {
  return {
    spanId: "00f067aa0ba902b7",
    parentSpanId: depth === 0 ? null : "00f067aa0ba902b6",
    service: "api",
    name,
    kind: "internal",
    status: "unset",
    statusMessage: null,
    depth,
    descendants: 0,
    startNs: startMs * ms,
    durationNs: durationMs * ms,
    selfNs: durationMs * ms,
    criticalNs: null,
    isOrphan: false,
    clockShiftNs: 0,
    version: null,
    host: null,
    httpMethod: null,
    httpRoute: null,
    httpStatusCode: null,
    dbSystem: null,
    dbStatement: null,
    rpcMethod: null,
    messagingDestination: null,
    dropped: 0,
    peer: null,
    errorType: null,
    attributes: null,
    events: null,
    links: null,
    resource: null,
    ...change,
  };
}

export function wholeTrace(spans: TraceSpan[], change: Partial<WholeTrace> = {}): WholeTrace {
  return {
    traceId,
    startedAt: "2026-01-01T00:00:00.123Z",
    durationNs: Math.max(0, ...spans.map(({ startNs, durationNs }) => startNs + durationNs)),
    total: spans.length,
    errors: spans.filter(({ status }) => status === "error").length,
    services: [...new Set(spans.map(({ service }) => service))],
    spans,
    ...change,
  };
}

export function traceSummary(change: Partial<TraceSummary> = {}): TraceSummary {
  return {
    traceId,
    startedAt: new Date().toISOString(),
    durationNs: 245 * ms,
    service: "web",
    name: "GET /checkout",
    hasRoot: true,
    spans: 34,
    errors: 0,
    services: ["api", "db", "web"],
    matchService: "api",
    matchName: "POST /orders",
    matchDurationNs: 200 * ms,
    weight: 1,
    ...change,
  };
}

export function tracesResult(change: Partial<TracesResult> = {}): TracesResult {
  return { sinceMs: 3_600_000, total: 0, storedSpans: 0, estimatedSpans: 0, traces: [], trace: null, ...change };
}
