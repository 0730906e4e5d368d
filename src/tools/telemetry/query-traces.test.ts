import { describe, expect, it } from "vitest";
import type { SpanFact, TraceSummary, TracesRequest } from "../../model/traces.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentOf, colonyOf, context } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { TracesResult } from "../schemas/trace.ts";
import { queryTraces } from "./query-traces.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";

function spanOf(spanId: string, parentSpanId: string | null, more: Partial<SpanFact> = {}): SpanFact {
  return {
    spanId,
    parentSpanId,
    agentId: "web-1",
    service: "api",
    name: "work",
    kind: "internal",
    status: "unset",
    statusMessage: null,
    startUs: 1_767_225_600_000_000,
    durationNs: 10_000_000,
    weight: 1,
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
    ...more,
  };
}

function summaryOf(more: Partial<TraceSummary> = {}): TraceSummary {
  return {
    traceId,
    startedAt: "2026-01-01T00:00:00.000Z",
    durationNs: 100_000_000,
    service: "web",
    name: "GET /",
    hasRoot: true,
    spans: 3,
    errors: 0,
    services: ["api", "web"],
    matchService: "web",
    matchName: "GET /",
    matchDurationNs: 100_000_000,
    weight: 1,
    ...more,
  };
}

const call = async (input: unknown, backend: Partial<ColonyBackend> = {}): Promise<Answer<TracesResult>> =>
  (await queryTraces.call(colonyOf(backend), input, context)) as Answer<TracesResult>;
const notesOf = ({ completeness }: Answer<TracesResult>): string[] => completeness.notes.map(({ kind, message }) => `${kind}: ${message}`);

describe("coral_query_traces, a search", () => {
  it("passes the filters on and shows the matches", async () => {
    const asked: TracesRequest[] = [];
    const answer = await call(
      {
        service: "web",
        route: "/x",
        minDuration: "250ms",
        where: ["http.status_code>=500"],
        error: true,
        since: "2h",
        order: "slowest",
        limit: 3,
      },
      {
        traces: async (request) => {
          asked.push(request);
          return { rows: [summaryOf()], traces: 1, storedSpans: 1, estimatedSpans: 1 };
        },
      },
    );
    expect(asked).toEqual([
      {
        service: "web",
        route: "/x",
        minDurationNs: 250_000_000,
        where: [{ name: "http.status_code", operator: ">=", value: "500" }],
        error: true,
        sinceMs: 7_200_000,
        order: "slowest",
        limit: 3,
      },
    ]);
    expect(answer).toMatchObject({ total: 1, traces: [{ traceId }], trace: null, completeness: { complete: true } });
  });

  it("notes sampled, truncated, rootless and lost traces", async () => {
    const answer = await call(
      {},
      {
        agents: async () => [agentOf("web-1"), agentOf("web-2", { health: "unhealthy" })],
        losses: async () => [{ agentId: "web-1", signal: "span", rows: 500, reason: "disk-full", at: "2026-01-01T00:00:00.000Z" }],
        traces: async () => ({ rows: [summaryOf(), summaryOf({ hasRoot: false })], traces: 40, storedSpans: 50, estimatedSpans: 400.4 }),
      },
    );
    expect(notesOf(answer)).toEqual([
      expect.stringMatching(/^agent-silent: web-2/),
      "rows-lost: 500 rows of span from web-1 are missing: disk-full",
      "limit: 2 of about 40 traces are shown; narrow the search or raise limit",
      expect.stringMatching(/^sampled: agents kept 12.5% of these spans .*: 50 represent about 400;/),
      expect.stringMatching(/^rows-lost: the root span of 1 trace has not arrived/),
    ]);
  });

  it("finds a service ignoring case or by part of its name, else lists the known ones", async () => {
    const asked: (string | undefined)[] = [];
    const backend: Partial<ColonyBackend> = {
      traces: async ({ service }) => {
        asked.push(service);
        return service === "Web-Shop"
          ? { rows: [summaryOf()], traces: 1, storedSpans: 1, estimatedSpans: 1 }
          : { rows: [], traces: 0, storedSpans: 0, estimatedSpans: 0 };
      },
      spanServices: async () => ["Web-Shop", "api-1", "api-2"],
    };
    expect((await call({ service: "shop" }, backend)).traces).toHaveLength(1);
    expect(asked).toEqual(["shop", "Web-Shop"]);
    await expect(call({ service: "api" }, backend)).rejects.toThrow(
      'Cannot find traces of service "api": several names match: api-1, api-2',
    );
    await expect(call({ service: "db" }, backend)).rejects.toThrow("services with spans: Web-Shop, api-1, api-2");
    expect(notesOf(await call({ service: "api-1", since: "1m" }, backend))).toEqual([expect.stringMatching(/^no-data: no matching span/)]);
    expect(notesOf(await call({}, { agents: async () => [] }))).toEqual([expect.stringMatching(/^no-data: no agent has joined/)]);
  });
});

describe("coral_query_traces, one trace", () => {
  const spans = [
    spanOf("a", null, { service: "web", status: "error", durationNs: 50_000_000 }),
    spanOf("b", "a", { startUs: 1_767_225_600_010_000 }),
  ];

  it.each([traceId, traceId.toUpperCase(), `00-${traceId}-00f067aa0ba902b7-01`, ` ${traceId} `])("is found by the id %j", async (text) => {
    const asked: unknown[] = [];
    const answer = await call(
      { traceId: text },
      {
        trace: async (request) => {
          asked.push(request);
          return { spans, total: 2 };
        },
      },
    );
    expect(asked).toEqual([{ traceId, maxSpans: 500, details: false }]);
    expect(answer.trace).toMatchObject({
      traceId,
      startedAt: "2026-01-01T00:00:00.000Z",
      durationNs: 50_000_000,
      total: 2,
      errors: 1,
      services: ["api", "web"],
    });
    expect(
      answer.trace?.spans.map(({ spanId, depth, startNs, selfNs, criticalNs }) => [spanId, depth, startNs, selfNs, criticalNs]),
    ).toEqual([
      ["a", 0, 0, 40_000_000, 40_000_000],
      ["b", 1, 10_000_000, 10_000_000, 10_000_000],
    ]);
    expect(answer.completeness.complete).toBe(true);
  });

  it.each(["", "12", "0".repeat(32), `${traceId}0`, "'; DROP TABLE x"])("rejects %j", async (text) => {
    await expect(call({ traceId: text })).rejects.toMatchObject({ code: "invalid" });
  });

  it("fails with not-found for an unknown trace", async () => {
    await expect(call({ traceId })).rejects.toMatchObject({ code: "not-found" });
  });

  it("notes missing, shifted and omitted spans", async () => {
    const orphans = [spanOf("b", "x"), spanOf("c", "b", { service: "db", startUs: 1_767_225_599_000_000, durationNs: 1 })];
    const answer = await call({ traceId }, { trace: async () => ({ spans: orphans, total: 2 }) });
    expect(notesOf(answer)).toEqual([
      expect.stringMatching(/^rows-lost: 1 span is missing/),
      expect.stringMatching(/^rows-lost: the root span is missing/),
      expect.stringMatching(/^clock: 1 span is outside its parent/),
    ]);
    const cut = await call({ traceId, limit: 2 }, { trace: async () => ({ spans, total: 9 }) });
    expect(notesOf(cut)).toEqual([expect.stringMatching(/^limit: 2 of 9 spans are shown/)]);
  });

  it("bounds details", async () => {
    const answer = await call(
      { traceId, details: true },
      { trace: async () => ({ spans: [spanOf("a", null, { attributes: "x".repeat(100_000), events: "[]" })], total: 1 }) },
    );
    expect(answer.trace?.spans[0]?.attributes).toHaveLength(4_097);
    expect(answer.trace?.spans[0]?.events).toBe("[]");
  });
});
