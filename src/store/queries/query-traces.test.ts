import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { span } from "../signals/span.ts";
import { querySpanProcesses, querySpanServices, queryTrace, queryTraces, type TracesQuery } from "./query-traces.ts";
import { openStoredSpans, type SpanValues, type StoredSpans, traceIdOf } from "./stored-spans.fixture.ts";

const ms = 1_000;
const hourMs = 3_600_000;
let spans: StoredSpans;

/** web → api → db, 100 ms, 80 ms and 30 ms. */
function checkout(trace: string, atUs: number, more: Partial<SpanValues> = {}): SpanValues[] {
  return [
    {
      trace,
      id: "1",
      atUs,
      service: "web",
      name: "GET /checkout",
      kind: "server",
      http_route: "/checkout",
      duration_ns: 100_000_000,
      ...more,
    },
    {
      trace,
      id: "2",
      parent: "1",
      atUs: atUs + 10 * ms,
      service: "api",
      name: "POST /orders",
      kind: "server",
      duration_ns: 80_000_000,
      ...more,
    },
    {
      trace,
      id: "3",
      parent: "2",
      atUs: atUs + 20 * ms,
      service: "api",
      name: "SELECT",
      kind: "client",
      db_system: "postgresql",
      db_statement: "SELECT * FROM orders WHERE id = ?",
      duration_ns: 30_000_000,
      ...more,
    },
  ];
}

const ask = (more: Partial<TracesQuery> = {}) =>
  queryTraces(spans.store, { error: false, sinceMs: hourMs, nowMs: spans.clock.wall, order: "newest", limit: 20, ...more });
const idsOf = async (more: Partial<TracesQuery>) => (await ask(more)).rows.map(({ traceId }) => Number.parseInt(traceId, 16));

beforeAll(async () => {
  spans = await openStoredSpans();
  for (let index = 1; index <= 5; index++) await spans.add(checkout(String(index), index * 1_000 * ms));
  // A failed trace whose spans came from two agents, one span twice.
  const failed = checkout("6", 10_000 * ms);
  await spans.add(failed.slice(0, 1), "a1");
  await spans.add([{ ...(failed[1] as SpanValues), status: "error" }, failed[2] as SpanValues, failed[2] as SpanValues], "a2");
  // A sampled trace that represents four.
  await spans.add([...checkout("7", 11_000 * ms, { weight: 4 }), ...checkout("8", 12_000 * ms, { weight: 4 })]);
  // The root span never arrived.
  await spans.add(checkout("9", 13_000 * ms).slice(1));
  spans.clock.pass(20_000);
});
afterAll(() => spans[Symbol.asyncDispose]());

describe("queryTraces()", () => {
  it("lists the newest traces with their root, span and error counts, each span once", async () => {
    const answer = await ask({ limit: 4 });
    expect(answer.rows.map(({ traceId }) => traceId)).toEqual(["9", "8", "7", "6"].map(traceIdOf));
    expect(answer.rows[3]).toEqual({
      traceId: traceIdOf("6"),
      startedAt: "2026-01-01T00:00:10.000Z",
      durationNs: 100_000_000,
      service: "web",
      name: "GET /checkout",
      hasRoot: true,
      spans: 3,
      errors: 1,
      services: ["api", "web"],
      matchService: "web",
      matchName: "GET /checkout",
      matchDurationNs: 100_000_000,
      weight: 1,
    });
    expect(answer.rows[0]).toMatchObject({ service: "api", name: "POST /orders", hasRoot: false, spans: 2, durationNs: 80_000_000 });
    expect(answer.traces).toBe(9);
  });

  it.each<[string, Partial<TracesQuery>, number[]]>([
    ["service", { service: "web" }, [8, 7, 6, 5, 4, 3, 2, 1]],
    ["unknown service", { service: "nobody" }, []],
    ["error", { error: true }, [6]],
    ["error of another service", { error: true, service: "web" }, []],
    ["duration", { minDurationNs: 90_000_000, limit: 2 }, [8, 7]],
    ["duration of a service", { minDurationNs: 90_000_000, service: "api" }, []],
    ["route in any case", { route: "/CHECK", limit: 1 }, [8]],
    ["statement", { route: "from orders", limit: 1 }, [9]],
    ["time", { sinceMs: 9_500 }, [9, 8, 7]],
    ["slowest", { order: "slowest", service: "api", limit: 2 }, [1, 2]],
  ])("finds by %s", async (_what, query, expected) => {
    expect(await idsOf(query)).toEqual(expected);
  });

  it("counts by weight", async () => {
    const answer = await ask({ service: "web" });
    expect(answer).toMatchObject({ traces: 8, storedSpans: 8, estimatedSpans: 14 });
    expect(answer.rows.reduce((sum, { weight }) => sum + weight, 0)).toBe(14);
  });

  it("finds enough traces behind one with thousands of matching spans", async () => {
    const many = Array.from(
      { length: 3_000 },
      (_, index): SpanValues => ({ trace: "ff", id: (index + 1).toString(16), atUs: 15_000 * ms + index, service: "loop" }),
    );
    await spans.add([{ trace: "fe", id: "1", atUs: 14_000 * ms, service: "loop" }, ...many]);
    expect(await idsOf({ service: "loop", limit: 5 })).toEqual([0xff, 0xfe]);
    const { rows } = await ask({ service: "loop", limit: 1 });
    expect(rows[0]).toMatchObject({ spans: 3_000, durationNs: 2_999_000 + 1_000_000 });
  });

  it("accepts times and durations at the ends of their range", async () => {
    const lastUs = Number.MAX_SAFE_INTEGER - Date.UTC(2026, 0, 1) * 1_000;
    await spans.add([
      { trace: "dd", id: "1", atUs: -Date.UTC(2026, 0, 1) * 1_000, service: "odd", duration_ns: 9_223_372_036_854_775_807n },
      { trace: "dd", id: "2", parent: "1", atUs: 16_000 * ms, service: "odd", duration_ns: 0 },
      { trace: "dd", id: "3", parent: "2", atUs: lastUs, service: "odd", duration_ns: 9_223_372_036_854_775_807n, kind: "server" },
    ]);
    const { rows } = await ask({ service: "odd" });
    expect(rows[0]?.durationNs).toBeGreaterThan(0);
    expect((await ask({ limit: 1 })).rows[0]?.traceId).toBe(traceIdOf("dd"));
    await spans.add([{ trace: "de", id: "1", atUs: lastUs, service: "odd" }]);
    expect((await ask({ limit: 1 })).rows[0]?.traceId).toBe(traceIdOf("dd"));
    expect((await queryTrace(spans.store, { traceId: traceIdOf("dd"), maxSpans: 9, details: true })).spans).toHaveLength(3);
  });

  it("treats text that looks like SQL as text", async () => {
    expect(await idsOf({ service: "x' OR 1=1 --" })).toEqual([]);
    expect(await idsOf({ route: "%" })).toEqual([]);
  });
});

describe("queryTrace()", () => {
  it("returns all spans of all agents once, ordered by start", async () => {
    const { spans: found, total } = await queryTrace(spans.store, { traceId: traceIdOf("6"), maxSpans: 100, details: false });
    expect(total).toBe(3);
    expect(
      found.map(({ spanId, parentSpanId, service, agentId, status }) => [Number(spanId), Number(parentSpanId), service, agentId, status]),
    ).toEqual([
      [1, 0, "web", "a1", "unset"],
      [2, 1, "api", "a2", "error"],
      [3, 2, "api", "a2", "unset"],
    ]);
    expect(found[2]).toMatchObject({ dbStatement: "SELECT * FROM orders WHERE id = ?", durationNs: 30_000_000, attributes: null });
    expect(found[0]?.parentSpanId).toBeNull();
  });

  it("keeps the root and the longest spans when there are too many", async () => {
    const answer = await queryTrace(spans.store, { traceId: traceIdOf("6"), maxSpans: 2, details: true });
    expect(answer.total).toBe(3);
    expect(answer.spans.map(({ spanId }) => Number(spanId))).toEqual([1, 2]);
  });

  it("returns nothing for an unknown id, and rejects a malformed one", async () => {
    expect(await queryTrace(spans.store, { traceId: "e".repeat(32), maxSpans: 10, details: false })).toEqual({ spans: [], total: 0 });
    await expect(queryTrace(spans.store, { traceId: "12", maxSpans: 10, details: false })).rejects.toMatchObject({ code: "usage" });
  });

  it("reads only files that may contain the trace", async () => {
    const all = await spans.store.segments?.segmentSource(span as SegmentSignal);
    const one = await spans.store.segments?.segmentSource(span as SegmentSignal, { lookup: [traceIdOf("1"), traceIdOf("2")] });
    expect(one?.files).toBeGreaterThanOrEqual(2);
    expect(one?.files).toBeLessThan((all?.files ?? 0) / 2);
  });
});

describe("querySpanServices()", () => {
  it("lists the services of spans in the window, in steps of ten seconds", async () => {
    await spans.store.derive();
    expect(await querySpanServices(spans.store, { sinceMs: hourMs, nowMs: spans.clock.wall })).toEqual(["api", "loop", "odd", "web"]);
    expect(await querySpanServices(spans.store, { sinceMs: 600_000, nowMs: spans.clock.wall + hourMs })).toEqual(["odd"]);
  });

  it("lists a service as soon as its spans arrive, before they are counted", async () => {
    await spans.add([{ trace: "b0", id: "1", atUs: 1_000 * ms, service: 'a "new" one' }]);
    await spans.add([{ trace: "b0", id: "2", atUs: 1_000 * ms, service: "first of its agent" }], "a3");
    const names = () => querySpanServices(spans.store, { sinceMs: hourMs, nowMs: spans.clock.wall });
    const expected = ['a "new" one', "api", "first of its agent", "loop", "odd", "web"];
    expect(await names()).toEqual(expected);
    expect(await querySpanServices(spans.store, { sinceMs: 600_000, nowMs: spans.clock.wall + hourMs })).toEqual(["odd"]);
    await spans.store.derive();
    expect(await names()).toEqual(expected);
  });
});

describe("querySpanProcesses()", () => {
  it("returns the newest resource of one process per service and agent", async () => {
    const one = { service: "proc", atUs: 1_000 * ms };
    await spans.add([
      { ...one, trace: "c0", id: "1", resource: '{"process.pid":1}' },
      { ...one, trace: "c0", id: "2", resource: '{"process.pid":2}', atUs: 2_000 * ms },
    ]);
    await spans.add([{ ...one, trace: "c0", id: "3", resource: '{"process.pid":3}' }], "a2");
    await spans.store.derive();
    const found = await querySpanProcesses(spans.store, { nowMs: spans.clock.wall });
    expect(found.toSorted((a, b) => (a.agentId < b.agentId ? -1 : 1))).toEqual([
      { agentId: "a1", service: "proc", resource: '{"process.pid":2}' },
      { agentId: "a2", service: "proc", resource: '{"process.pid":3}' },
    ]);
    expect(await querySpanProcesses(spans.store, { nowMs: spans.clock.wall + hourMs })).toEqual([]);
  });
});
