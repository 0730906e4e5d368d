import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { querySpanEdges, type SpanEdgesQuery } from "./query-span-edges.ts";
import { openStoredSpans, type SpanValues, type StoredSpans } from "./stored-spans.fixture.ts";

let spans: StoredSpans;
const ms = 1_000;

/** web asks api, which asks db; api's part comes from another agent. */
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

beforeAll(async () => {
  spans = await openStoredSpans();
  for (let index = 1; index <= 8; index++) await addCall(index.toString(16), index * 1_000 * ms, 1);
  await addCall("a0", 9_000 * ms, 12, { status: "error", duration_ns: 64_000_000 });
  // The same once more, as after an answer that got lost.
  await addCall("a0", 9_000 * ms, 12, { status: "error", duration_ns: 64_000_000 });
  await spans.add([
    { trace: "b0", id: "1", atUs: 9_500 * ms, service: "api", kind: "producer" },
    { trace: "b0", id: "2", parent: "1", atUs: 9_600 * ms, service: "mailer", kind: "consumer", messaging_system: "kafka", weight: 0 },
    // Its parent never came: no edge.
    { trace: "b1", id: "2", parent: "9", atUs: 9_600 * ms, service: "ghost", kind: "server" },
    // The same ids in another trace: no edge.
    { trace: "b2", id: "9", atUs: 9_600 * ms, service: "stranger", kind: "client" },
  ]);
  spans.clock.pass(20_000);
});
afterAll(() => spans[Symbol.asyncDispose]());

describe("querySpanEdges()", () => {
  it("counts what spans stand for, each call once, across agents, and makes no edge without a parent", async () => {
    const { edges, windowMs, share } = await ask();
    expect(edges.map(({ client, server, protocol, requests, errors }) => [client, server, protocol, requests, errors])).toEqual([
      ["web", "api", "http", 20, 12],
      ["api", "mailer", "kafka", 0, 0],
    ]);
    expect(Math.abs((edges[0]?.p50Us ?? 0) / 64_000 - 1)).toBeLessThan(0.022);
    expect(edges[1]).toMatchObject({ p50Us: null, lastSeenAt: "2026-01-01T00:00:09.600Z" });
    expect({ windowMs, share }).toEqual({ windowMs: 18_999, share: 1 });
  });

  it("weighs percentiles, too: 8 calls of 8 ms and one that stands for 12 of 64 ms", async () => {
    const [edge] = (await ask()).edges;
    expect(edge?.p95Us).toBe(edge?.p50Us);
    const [early] = (await querySpanEdges(spans.store, { sinceMs: 60_000, nowMs: spans.clock.wall, agentIds: ["a2"], service: "web" }))
      .edges;
    expect(early).toMatchObject({ client: "web", server: "api", requests: 20 });
  });

  it("keeps to the time, the agents and the service", async () => {
    expect((await ask({ sinceMs: 12_500 })).edges[0]).toMatchObject({ requests: 13 });
    expect((await ask({ agentIds: ["a1"] })).edges.map(({ server }) => server)).toEqual(["mailer"]);
    expect((await ask({ agentIds: [] })).edges).toEqual([]);
    expect((await ask({ service: "mailer" })).edges).toHaveLength(1);
    expect((await ask({ service: "nobody" })).edges).toEqual([]);
  });

  it("looks at a share of the traces when there are too many spans, and says so", async () => {
    const { edges, share } = await ask({ maxSpans: 20 });
    expect(share).toBeLessThan(0.5);
    for (const { requests } of edges) expect(requests % Math.round(1 / share)).toBe(0);
  });
});
