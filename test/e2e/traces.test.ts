/** Traces, from a program's OTLP request to the command line. */

import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Topology, TracesResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let endpoint: string;

beforeAll(async () => {
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
  agent = await startAgent({ home: home.path, config: "otlp:\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:0\n" });
  await agent.waitUntilConnected();
  const status = await coralJson<{ otlp: { http: string } }>(["agent", "status"], { home: home.path });
  endpoint = `http://${status.otlp.http}/v1/traces`;
});
afterAll(async () => {
  for (const resource of [agent, colony, home]) await resource[Symbol.asyncDispose]();
});

interface SentSpan {
  service: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  /** Offset from the start of the trace. */
  startMs: number;
  durationMs: number;
  attributes?: Record<string, string | number>;
  error?: string;
}

/** OTLP/JSON as an exporter sends it: one resource per service. */
function requestOf(traceId: string, startMs: number, spans: readonly SentSpan[]): string {
  const value = (item: string | number) => (typeof item === "number" ? { intValue: String(item) } : { stringValue: item });
  const nano = (ms: number): string => `${BigInt(Math.round((startMs + ms) * 1_000)) * 1_000n}`;
  const resourceSpans = [...new Set(spans.map(({ service }) => service))].map((service) => ({
    resource: { attributes: [{ key: "service.name", value: { stringValue: service } }] },
    scopeSpans: [
      {
        scope: { name: "test" },
        spans: spans
          .filter((span) => span.service === service)
          .map((span) => ({
            traceId,
            spanId: span.spanId,
            ...(span.parentSpanId !== undefined && { parentSpanId: span.parentSpanId }),
            name: span.name,
            kind: span.kind,
            startTimeUnixNano: nano(span.startMs),
            endTimeUnixNano: nano(span.startMs + span.durationMs),
            attributes: Object.entries(span.attributes ?? {}).map(([key, item]) => ({ key, value: value(item) })),
            status: span.error === undefined ? {} : { code: 2, message: span.error },
          })),
      },
    ],
  }));
  return JSON.stringify({ resourceSpans });
}

async function send(body: string): Promise<void> {
  const reply = await fetch(endpoint, { method: "POST", headers: { "content-type": "application/json" }, body });
  expect([reply.status, await reply.text()]).toEqual([200, expect.any(String)]);
}

const checkout = (): SentSpan[] => [
  {
    service: "shop-web",
    spanId: "00000000000000a1",
    name: "GET /checkout",
    kind: 2,
    startMs: 0,
    durationMs: 250,
    attributes: { "http.route": "/checkout" },
  },
  {
    service: "shop-web",
    spanId: "00000000000000a2",
    parentSpanId: "00000000000000a1",
    name: "POST",
    kind: 3,
    startMs: 20,
    durationMs: 200,
  },
  {
    service: "shop-api",
    spanId: "00000000000000b1",
    parentSpanId: "00000000000000a2",
    name: "POST /orders",
    kind: 2,
    startMs: 30,
    durationMs: 180,
    attributes: { "http.response.status_code": 503 },
    error: "no stock",
  },
  {
    service: "shop-api",
    spanId: "00000000000000b2",
    parentSpanId: "00000000000000b1",
    name: "SELECT",
    kind: 3,
    startMs: 60,
    durationMs: 120,
    attributes: { "db.system": "postgresql", "db.statement": "SELECT * FROM stock WHERE id = 42" },
  },
];

describe("coral query traces", () => {
  const traceId = randomBytes(16).toString("hex");

  it("shows a trace within seconds after its spans were sent", async () => {
    await send(requestOf(traceId, Date.now() - 1_000, checkout()));
    const found = await waitFor(
      "the trace",
      async () => (await coralJson<TracesResult>(["query", "traces", "shop-web"], { home: home.path })).traces[0],
    );
    expect(found).toMatchObject({
      traceId,
      service: "shop-web",
      name: "GET /checkout",
      durationNs: 250_000_000,
      spans: 4,
      errors: 1,
      services: ["shop-api", "shop-web"],
      weight: 1,
    });
  });

  it.each([
    [["--error"], 1],
    [["shop-api", "--min-duration", "150ms"], 1],
    [["shop-api", "--min-duration", "200ms"], 0],
    [["--route", "/ORDERS"], 1],
    [["--route", "from stock"], 1],
    [["--error", "--route", "/checkout"], 0],
  ])("filters by %j", async (args, count) => {
    const answer = await coralJson<TracesResult>(["query", "traces", ...args], { home: home.path });
    expect(answer.traces).toHaveLength(count);
  });

  it("draws a waterfall with critical path and self times", async () => {
    const { code, stdout, stderr } = await runCoral(["query", "traces", "--trace-id", traceId], { home: home.path });
    expect([code, stderr]).toEqual([0, ""]);
    const rows = stdout.split("\n").filter((line) => /[█▒]/.test(line) && !line.includes("critical"));
    expect(rows.map((line) => line.replaceAll(/\s*[█▒]+\s*/g, " | "))).toEqual([
      "* shop-web  GET /checkout | 250ms   50ms",
      "* └ POST | 200ms   20ms",
      "*   └ shop-api  POST /orders ✗ 503 | 180ms   60ms",
      "*     └ SELECT * FROM stock WHERE id = ? | 120ms  120ms",
    ]);
    expect(stdout).toContain("Where the time went\n  120ms    48%  shop-api  SELECT * FROM stock WHERE id = ?\n");
    expect(stdout).toContain("shop-api  POST /orders: 503 no stock");
  });

  it("reports missing spans and services that sent none", async () => {
    const other = randomBytes(16).toString("hex");
    await send(requestOf(other, Date.now(), checkout().slice(2)));
    const answer = await waitFor("the other trace", () =>
      coralJson<TracesResult>(["query", "traces", "--trace-id", other], { home: home.path }),
    );
    expect(answer.trace?.spans.map(({ isOrphan }) => isOrphan)).toEqual([true, false]);
    const shown = await runCoral(["query", "traces", other], { home: home.path });
    expect(shown.stderr).toMatch(/1 span is missing.*\n.*the root span is missing/);
    const unknown = await runCoral(["query", "traces", "nobody"], { home: home.path });
    expect(unknown.code).not.toBe(0);
    expect(unknown.stderr).toContain("services with spans: shop-api, shop-web");
    const gone = await runCoral(["query", "traces", "f".repeat(32)], { home: home.path });
    expect(gone.stderr).toContain(`Cannot find trace "${"f".repeat(32)}"`);
  });

  it("stores a span once if it is sent twice", async () => {
    const twice = randomBytes(16).toString("hex");
    const body = requestOf(twice, Date.now(), checkout());
    await send(body);
    await send(body);
    const trace = await waitFor("all of it", async () => {
      const answer = await coralJson<TracesResult>(["query", "traces", twice], { home: home.path });
      return answer.trace;
    });
    expect(trace.total).toBe(4);
  });

  it("adds the call between two services to the topology, counted once", async () => {
    // Spans are aggregated every few seconds.
    const calls = await waitFor("both calls", async () => {
      const { edges } = await coralJson<Topology>(["network", "topology", "--since", "5m"], { home: home.path });
      const bySpans = edges.filter(({ evidence }) => evidence.includes("spans"));
      return (bySpans[0]?.requests?.count ?? 0) >= 2 ? bySpans : undefined;
    });
    // Two of the three traces have both ends; the duplicate counts once.
    expect(calls).toMatchObject([
      { from: "service:shop-web", to: "service:shop-api", class: "INTERNAL", requests: { protocol: "http", count: 2, errorRatio: 1 } },
    ]);
    const { stdout } = await runCoral(["network", "topology"], { home: home.path });
    expect(stdout).toMatch(/shop-api.*req\/s, 100% errors, p95 1[78]\dms, HTTP/);
  });
});
