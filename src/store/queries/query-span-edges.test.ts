import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { seededRandom } from "../store.fixture.ts";
import { querySpanEdges, type SpanEdgesQuery } from "./query-span-edges.ts";
import { openStoredSpans, type SpanValues, type StoredSpans } from "./stored-spans.fixture.ts";

let spans: StoredSpans;
const ms = 1_000;

/** web calls api, which calls db. The spans of api come from another agent. */
async function addCall(trace: string, atUs: number, weight: number, more: Partial<SpanValues> = {}): Promise<void> {
  await spans.add([
    { trace, id: "1", atUs, service: "web", kind: "server", weight },
    { trace, id: "2", parent: "1", atUs, service: "web", kind: "client", weight },
  ]);
  await spans.add(
    [
      {
        trace,
        id: "3",
        parent: "2",
        atUs: atUs + ms,
        service: "api",
        kind: "server",
        http_method: "GET",
        duration_ns: 8_000_000,
        weight,
        ...more,
      },
      { trace, id: "4", parent: "3", atUs: atUs + ms, service: "api", kind: "server", weight },
      { trace, id: "5", parent: "3", atUs: atUs + 2 * ms, service: "api", kind: "client", weight },
    ],
    "a2",
  );
}

const ask = (more: Partial<SpanEdgesQuery> = {}) => querySpanEdges(spans.store, { sinceMs: 60_000, nowMs: spans.clock.wall, ...more });

describe("querySpanEdges()", () => {
  beforeAll(async () => {
    spans = await openStoredSpans();
    for (let index = 1; index <= 8; index++) await addCall(index.toString(16), index * 1_000 * ms, 1);
    await addCall("a0", 9_000 * ms, 12, { status: "error", duration_ns: 64_000_000 });
    // A resend, as after a lost acknowledgement.
    await addCall("a0", 9_000 * ms, 12, { status: "error", duration_ns: 64_000_000 });
    await spans.add([
      { trace: "b0", id: "1", atUs: 9_500 * ms, service: "api", kind: "producer" },
      { trace: "b0", id: "2", parent: "1", atUs: 9_600 * ms, service: "mailer", kind: "consumer", messaging_system: "kafka", weight: 0 },
      // The parent span never arrived: no edge.
      { trace: "b1", id: "2", parent: "9", atUs: 9_600 * ms, service: "ghost", kind: "server" },
      // The same ids in another trace: no edge.
      { trace: "b2", id: "9", atUs: 9_600 * ms, service: "stranger", kind: "client" },
    ]);
    await spans.store.derive();
    spans.clock.pass(20_000);
  });
  afterAll(() => spans[Symbol.asyncDispose]());

  it("counts by weight, each call once, across agents, and no edge without a parent", async () => {
    const { edges, windowMs } = await ask();
    expect(edges.map(({ client, server, protocol, requests, errors }) => [client, server, protocol, requests, errors])).toEqual([
      ["web", "api", "http", 20, 12],
      ["api", "mailer", "kafka", 0, 0],
    ]);
    expect(Math.abs((edges[0]?.p50Us ?? 0) / 64_000 - 1)).toBeLessThan(0.032);
    expect(edges[1]).toMatchObject({ p50Us: null, lastSeenAt: "2026-01-01T00:00:09.600Z" });
    expect(windowMs).toBe(18_999);
  });

  it("weights percentiles: 8 calls of 8 ms and one that represents 12 of 64 ms", async () => {
    const [edge] = (await ask()).edges;
    expect(edge?.p95Us).toBe(edge?.p50Us);
    const [early] = (await querySpanEdges(spans.store, { sinceMs: 60_000, nowMs: spans.clock.wall, agentIds: ["a2"], service: "web" }))
      .edges;
    expect(early).toMatchObject({ client: "web", server: "api", requests: 20 });
  });

  it("filters by whole minutes, agents and service", async () => {
    await spans.add([
      { trace: "c0", id: "1", atUs: 80_000 * ms, service: "late", kind: "client" },
      { trace: "c0", id: "2", parent: "1", atUs: 80_000 * ms, service: "api", kind: "server" },
    ]);
    await spans.store.derive();
    const nowMs = spans.clock.wall + 100_000;
    expect((await ask({ nowMs })).edges.map(({ client }) => client)).toEqual(["late"]);
    expect((await ask({ nowMs, sinceMs: 120_000 })).edges.map(({ client }) => client)).toEqual(["web", "late", "api"]);
    expect((await ask({ agentIds: ["a1"] })).edges.map(({ server }) => server)).toEqual(["api", "mailer"]);
    expect((await ask({ agentIds: [] })).edges).toEqual([]);
    expect((await ask({ service: "mailer" })).edges).toHaveLength(1);
    expect((await ask({ service: "nobody" })).edges).toEqual([]);
  });
});

describe("edges of spans that arrive in any order", () => {
  const ends = (trace: string, atUs: number) => ({
    calling: { trace, id: "1", atUs, service: "web", kind: "client" },
    called: { trace, id: "2", parent: "1", atUs: atUs + ms, service: "api", kind: "server" },
  });

  async function countAfter(steps: readonly (readonly SpanValues[])[], rollups = false): Promise<number> {
    await using stored = await openStoredSpans();
    for (const step of steps) {
      await stored.add(step);
      await stored.store.derive();
      if (rollups) await stored.store.rollup();
      stored.clock.pass(11 * 60_000);
    }
    const { edges } = await querySpanEdges(stored.store, { sinceMs: 24 * 3_600_000, nowMs: stored.clock.wall });
    return edges.reduce((sum, { requests }) => sum + requests, 0);
  }

  it("counts a call when its caller arrives later, but not before", async () => {
    const { calling, called } = ends("1", 0);
    expect(await countAfter([[called]])).toBe(0);
    expect(await countAfter([[called], [calling]])).toBe(1);
    expect(await countAfter([[called], [calling]], true)).toBe(1);
  });

  it("counts a call when its caller arrived before", async () => {
    const { calling, called } = ends("1", 0);
    expect(await countAfter([[calling], [called]])).toBe(1);
    // A message that waited in its queue for five minutes.
    const consumed: SpanValues = { ...called, kind: "consumer", atUs: 300_000 * ms };
    expect(await countAfter([[calling], [consumed]])).toBe(1);
  });

  it("counts a call once when either of its ends is sent again", async () => {
    const { calling, called } = ends("1", 0);
    expect(await countAfter([[calling, called, called], [called], [calling], [calling, called]])).toBe(1);
    expect(await countAfter([[called], [called], [calling]])).toBe(1);
  });

  it("agrees with counting all spans at once, for any order and batching", async () => {
    const random = seededRandom(11);
    const all = Array.from({ length: 300 }, (_, index) => ends((index + 1).toString(16), Math.floor(random() * 50_000) * ms));
    const shuffled = all.flatMap(({ calling, called }) => [calling, called]).sort(() => random() - 0.5);
    const cuts = Array.from({ length: 6 }, (_, index) => shuffled.slice(index * 100, index * 100 + 100));
    expect(await countAfter([shuffled])).toBe(300);
    expect(await countAfter(cuts, true)).toBe(300);
  });
});
