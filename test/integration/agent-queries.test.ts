/** Queries that the colony forwards to an agent's own store, over the real service definition. */

import { mkdirSync } from "node:fs";
import { createRouterTransport } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addAgentService } from "../../src/agent/link/agent-service.ts";
import { QueryService } from "../../src/agent/link/query-service.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { AgentQueries } from "../../src/colony/queries/agent-queries.ts";
import { createOwnStoresBackend } from "../../src/colony/queries/own-stores-backend.ts";
import { createTelemetryBackend } from "../../src/colony/queries/telemetry-backend.ts";
import type { AgentRegistry } from "../../src/colony/registry/agent-registry.ts";
import { type AgentStore, openAgentStore } from "../../src/store/agent/index.ts";
import { type ColonyStore, openColonyStore } from "../../src/store/colony/index.ts";
import { batchFromSegmentRows, type SegmentRow, sealSegment } from "../../src/store/segments/index.ts";
import {
  derivedSignals,
  logRecord,
  metricPoint,
  type SegmentSignal,
  segmentSignals,
  signals,
  span,
} from "../../src/store/signals/index.ts";
import { temporaryFolder, testEngine } from "../../src/store/store.fixture.ts";
import { coralErrorsOnWire } from "../../src/transport/http/rpc-errors.ts";

const mebibyte = 1024 ** 2;
const context = { signal: new AbortController().signal };
const traceId = "a".repeat(32);
const hourMs = 3_600_000;
const search = { error: false, sinceMs: hourMs, order: "newest" as const, limit: 10 };

let agent: AgentStore;
let colony: ColonyStore;
let isConnected = true;
const closing: (() => Promise<void> | void)[] = [];

/** The body contains the rows. */
const encode = (rows: readonly object[]) => ({
  kind: 0,
  rows: rows.length,
  receivedUs: 0,
  body: Buffer.from(JSON.stringify(rows)),
});

const nowUs = (): number => Math.floor(Date.now() * 1_000);

function spanRow(id: string, parent: string | null, more: Partial<SegmentRow<(typeof span)["columns"]>> = {}) {
  const ids = { trace_id: traceId, span_id: id.padStart(16, "0"), parent_span_id: parent === null ? null : parent.padStart(16, "0") };
  return { time: nowUs(), service: "web", name: "work", kind: "server", duration_ns: 1_000_000, status: "ok", weight: 1, ...ids, ...more };
}

async function put(signal: SegmentSignal, rows: readonly object[]): Promise<void> {
  await agent.segments?.append(signal.name, encode(rows));
  await agent.segments?.flush();
}

function backend() {
  const transport = createRouterTransport(
    (router) =>
      addAgentService(router, {
        agentId: "a1",
        sessionId: "s",
        store: agent,
        queries: new QueryService(agent, systemClock),
        clock: systemClock,
      }),
    { router: { interceptors: [coralErrorsOnWire] } },
  );
  const entry = () => ({ record: { agentId: "a1" }, session: isConnected ? { tunnel: { transport } } : undefined });
  const registry = { find: (id: string) => (id === "a1" ? entry() : undefined), entries: () => [entry()].values() };
  const store = colony;
  const own = createTelemetryBackend({ store, clock: systemClock });
  return createOwnStoresBackend({ own, agents: new AgentQueries(registry as unknown as AgentRegistry), clock: systemClock });
}

beforeAll(async () => {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  mkdirSync(folder.file("colony"));
  const common = { maxBytes: 64 * mebibyte, clock: systemClock, log: silentLogger };
  const byName = new Map(segmentSignals.map((signal) => [signal.name, signal]));
  agent = await openAgentStore(engine, {
    ...common,
    signals,
    file: folder.file("agent.duckdb"),
    segments: {
      signals: segmentSignals,
      maxBytes: 64 * mebibyte,
      directory: folder.path,
      seal: (job) => {
        const signal = byName.get(job.signal) as SegmentSignal;
        const decode = (text: string) => JSON.parse(text) as never[];
        return Promise.resolve(
          sealSegment(signal, job, (records) => ({
            batch: batchFromSegmentRows(signal, Array.from(records, ({ body }) => decode(Buffer.from(body).toString())).flat()),
          })),
        );
      },
    },
  });
  colony = await openColonyStore(engine, {
    ...common,
    signals: [...signals, ...derivedSignals],
    file: folder.file("colony/colony.duckdb"),
    segments: { signals: segmentSignals, maxBytes: 64 * mebibyte, directory: folder.file("colony") },
  });
  closing.push(
    () => agent.close(),
    () => colony.close(),
    () => engine.close(),
    () => folder[Symbol.dispose](),
  );
  // Older than the requested range, so that the agent covers all of it.
  await put(span as SegmentSignal, [spanRow("9", null, { time: nowUs() - 2 * hourMs * 1_000, trace_id: "b".repeat(32) })]);
  await put(span as SegmentSignal, [spanRow("1", null), spanRow("2", "1", { service: "api", status: "error" })]);
  const record = { observed_time_us: nowUs(), severity: "error", severity_number: 17, service: "web", body: "it broke" };
  await put(logRecord as SegmentSignal, [
    { time: nowUs() - 2 * hourMs * 1_000, ...record, body: "old" },
    { time: nowUs(), ...record },
  ]);
  const none = Object.fromEntries(Object.keys(metricPoint.columns).map((name) => [name, null]));
  const point = (at: number, value: number) => ({
    ...none,
    ...{
      at,
      mono_ms: 1,
      service: "web",
      name: "queue.length",
      unit: "1",
      kind: "gauge",
      is_monotonic: false,
      attributes: "{}",
      series: "5",
    },
    value,
  });
  await agent.append(metricPoint, [point(nowUs() - 2 * hourMs * 1_000, 1), point(nowUs() - 1_000_000, 7)] as never[]);
});
afterAll(async () => {
  for (const close of closing) await close();
});

describe("createOwnStoresBackend()", () => {
  it("finds a trace that was not pulled yet at its agent", async () => {
    isConnected = true;
    const { spans, total, ownStores } = await backend().trace({ traceId, maxSpans: 100, details: true }, context);
    expect(total).toBe(2);
    expect(spans.map((span) => [Number(span.spanId), "agentId" in span ? span.agentId : ""])).toEqual([
      [1, "a1"],
      [2, "a1"],
    ]);
    expect(ownStores).toEqual(["a1"]);
    expect(await backend().trace({ traceId: "c".repeat(32), maxSpans: 100, details: false }, context)).toEqual({ spans: [], total: 0 });
  });

  it("queries the selected agent for traces, logs and metrics", async () => {
    isConnected = true;
    const asked = backend();
    const which = { agentIds: ["a1"] };
    expect(await asked.traces({ ...search, error: true, ...which }, context)).toMatchObject({ traces: 1, ownStores: ["a1"] });
    expect(await asked.traces({ ...search, error: true }, context)).toMatchObject({ traces: 0 });
    expect(await asked.logs({ sinceMs: hourMs, limit: 10, ...which }, context)).toMatchObject({
      rows: [{ body: "it broke", agentId: "a1" }],
      ownStores: ["a1"],
    });
    expect((await asked.logPatterns({ sinceMs: hourMs, limit: 10, ...which }, context)).records).toBe(1);
    expect(await asked.metricNames({ sinceMs: hourMs, limit: 10, ...which }, context)).toMatchObject({ total: 1, ownStores: ["a1"] });
    const metric = await asked.metric({ name: "queue.length", sinceMs: hourMs, limit: 10, maxPoints: 0, ...which }, context);
    expect(metric).toMatchObject({ total: 1, rows: [{ last: 7 }], ownStores: ["a1"] });
  });

  it("reads the colony's copy if the agent's retention is too short, and reports an agent that cannot be reached", async () => {
    isConnected = true;
    const which = { agentIds: ["a1"] };
    const longer = await backend().traces({ ...search, sinceMs: 3 * hourMs, ...which }, context);
    expect(longer).toMatchObject({ traces: 0 });
    expect(longer.ownStores).toBeUndefined();
    isConnected = false;
    const disconnected = await backend().logs({ sinceMs: hourMs, limit: 10, ...which }, context);
    expect(disconnected).toMatchObject({ rows: [], directProblem: expect.stringContaining("not connected") as string });
    expect(await backend().trace({ traceId, maxSpans: 100, details: false }, context)).toEqual({ spans: [], total: 0 });
  });

  it("returns an invalid query's error instead of falling back", async () => {
    isConnected = true;
    const service = new QueryService(agent, systemClock);
    const ask = (kind: string, request: string) => service.run({ kind, request } as never, context.signal);
    await expect(ask("secrets", "{}")).rejects.toThrow("does not support it");
    for (const bad of ["", "[]", "null", "1", "{"]) await expect(ask("trace", bad)).rejects.toThrow("not a JSON object");
  });
});
