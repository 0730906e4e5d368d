/** Sample answers about requests, for tests of commands. */

import type { CapturedRequest, CaptureEvent, RedResult, RedRow, TopResult, TopRow } from "../tools/index.ts";

export function redRow(service: string, change: Partial<RedRow> = {}): RedRow {
  return {
    source: "hooks",
    service,
    role: "server",
    protocol: "http",
    isTls: false,
    peer: null,
    method: null,
    route: null,
    status: null,
    requests: 12_300,
    tlsRequests: 0,
    errors: 0,
    requestBytes: 2_048_000,
    responseBytes: 40_960_000,
    meanUs: 1_400,
    p50Us: 950,
    p95Us: 4_200,
    p99Us: 12_500,
    queueMeanUs: 120,
    queueP95Us: 400,
    firstByteP50Us: 900,
    firstByteP95Us: 4_000,
    perSecond: 41,
    errorRatio: 0,
    serviceMeanUs: 1_280,
    before: null,
    points: [10, 20, 41, 82],
    ...change,
  };
}

export function redResult(rows: RedRow[], change: Partial<RedResult> = {}): RedResult {
  return { sinceMs: 300_000, windowMs: 300_000, by: "service", total: rows.length, rows, findings: [], ...change };
}

export function topRow(service: string, change: Partial<TopRow> = {}): TopRow {
  return {
    service,
    role: "server",
    protocols: ["http"],
    perSecond: 41,
    errorRatio: 0.002,
    p50Us: 950,
    p95Us: 4_200,
    p99Us: 12_500,
    queueMeanUs: 120,
    cpuCores: 0.52,
    rssBytes: 128 * 1024 ** 2,
    points: [1, 2, 4],
    ...change,
  };
}

export function topResult(rows: TopRow[], change: Partial<TopResult> = {}): TopResult {
  return { sinceMs: 60_000, windowMs: 60_000, total: rows.length, perSecond: 82, errorRatio: 0.002, rows, ...change };
}

export function capturedRequest(change: Partial<CapturedRequest> = {}): CapturedRequest {
  return {
    at: new Date(2026, 0, 2, 8, 12, 33, 7).toISOString(),
    agentId: "agent-a",
    hostname: "web-1",
    service: "api",
    pid: 4242,
    role: "server",
    protocol: "http",
    isTls: false,
    client: "10.0.0.5:41234",
    server: "10.0.0.1:8080",
    peer: null,
    method: "GET",
    target: "/users/7?token=***",
    route: "/users/{id}",
    status: "200",
    isError: false,
    requestHeaders: [["host", "api.example.com"]],
    responseHeaders: [["content-type", "application/json"]],
    requestBytes: 120,
    responseBytes: 3_480,
    durationUs: 12_300,
    firstByteUs: 11_000,
    queueUs: 200,
    requestBody: null,
    responseBody: '{"name":"x",\n"password":"***"}',
    ...change,
  };
}

/** The events of a capture before its first request. */
export const captureStart: CaptureEvent[] = [
  { kind: "started", captureId: "c1", service: "api", agents: [{ agentId: "agent-a", hostname: "web-1" }] },
  { kind: "agent-started", agentId: "agent-a", hostname: "web-1", processes: 2, limit: 100, durationMs: 30_000 },
];

export function captureEnd(change: Partial<Extract<CaptureEvent, { kind: "agent-ended" }>["end"]> = {}): CaptureEvent {
  const end = { agentId: "agent-a", hostname: "web-1", reason: "expired" as const, problem: null, code: null, requests: 0, dropped: 0 };
  return { kind: "agent-ended", end: { ...end, ...change } };
}
