import { describe, expect, it } from "vitest";
import type { EdgeRedFact, SpanEdgeFact } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentOf, colonyOf, context, edgeOf, networkOf, serviceOf } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { Topology } from "../schemas/network.ts";
import { getTopology } from "./get-topology.ts";

const at = "2026-01-02T00:00:00.000Z";

function call(client: string, server: string, requests: number): SpanEdgeFact {
  return {
    client,
    server,
    protocol: "http",
    requests,
    errors: requests / 4,
    p50Us: 1_000,
    p95Us: 2_000,
    p99Us: 3_000,
    firstSeenAt: at,
    lastSeenAt: at,
  };
}

const red = (client: string, server: string, serverPort: number, requests: number): EdgeRedFact => ({
  client: { kind: "service", name: client },
  server: { kind: "service", name: server },
  serverPort,
  protocol: "http2",
  requests,
  errors: 0,
  p50Us: 10,
  p95Us: 20,
  p99Us: 30,
});

const ask = async (backend: Partial<ColonyBackend>, input: object = {}): Promise<Answer<Topology>> =>
  (await getTopology.call(colonyOf({ agents: async () => [agentOf("web-1")], ...backend }), input, context)) as Answer<Topology>;
const spansOf = (...edges: SpanEdgeFact[]) => ({ spanEdges: async () => ({ edges, windowMs: 100_000 }) });

describe("coral_get_topology with spans", () => {
  it("adds an edge known only from spans, with its rate", async () => {
    const { edges, nodes } = await ask(spansOf(call("web", "api", 200)));
    expect(nodes.map(({ id }) => id)).toEqual(["service:api", "service:web"]);
    expect(edges).toMatchObject([
      {
        from: "service:web",
        to: "service:api",
        port: 0,
        class: "INTERNAL",
        evidence: ["spans"],
        connections: 0,
        requests: { protocol: "http", count: 200, perSecond: 2, errorRatio: 0.25, p95Us: 2_000 },
      },
    ]);
  });

  it("counts a request that hooks and spans saw once, as hooks measured it", async () => {
    const { edges } = await ask({
      ...spansOf(call("web", "api", 200)),
      edges: async () => networkOf([edgeOf("web", "api", 8_080)]),
      edgeRed: async () => ({ edges: [red("web", "api", 8_080, 1_000)], windowMs: 100_000 }),
    });
    expect(edges).toMatchObject([
      { port: 8_080, evidence: ["both-ends", "spans", "requests"], requests: { protocol: "http2", count: 1_000, perSecond: 10 } },
    ]);
  });

  it("adds the rate from spans to the matching connection, where hooks saw no request", async () => {
    const { edges } = await ask({
      ...spansOf(call("web", "api", 200)),
      edges: async () =>
        networkOf([edgeOf("web", "api", 9_090), edgeOf("web", "api", 8_080, { connections: 7 }), edgeOf("web", "external:1.2.3.4", 443)]),
    });
    expect(edges.map(({ port, evidence, requests }) => [port, evidence, requests?.count ?? null])).toEqual([
      [8_080, ["both-ends", "spans"], 200],
      [443, ["both-ends"], null],
      [9_090, ["both-ends"], null],
    ]);
  });

  it("distinguishes directions, and walks over edges from spans", async () => {
    const spans = spansOf(call("web", "api", 4), call("api", "web", 8), call("api", "db", 1));
    const { edges } = await ask({ ...spans, edges: async () => networkOf([edgeOf("web", "api", 80)]) });
    expect(edges).toHaveLength(3);
    const { nodes } = await ask(spans, { service: "db", direction: "dependents" });
    expect(nodes.map(({ name, distance }) => [name, distance])).toEqual([
      ["db", 0],
      ["api", 1],
      ["web", 2],
    ]);
  });

  it("resolves a service by the name in its spans", async () => {
    const resource = JSON.stringify({ "process.pid": 100, "process.executable.path": "/usr/bin/node" });
    const backend: Partial<ColonyBackend> = {
      ...spansOf(call("web", "shop-api", 200)),
      edges: async () => networkOf([edgeOf("web", "api", 8_080)]),
      edgeRed: async () => ({ edges: [red("web", "api", 8_080, 1_000)], windowMs: 100_000 }),
      spanProcesses: async () => [{ agentId: "web-1", service: "shop-api", resource }],
      services: async () => [serviceOf("web-1", "api", 8_080)],
    };
    const { edges } = await ask(backend);
    expect(edges).toMatchObject([{ to: "service:api", evidence: ["both-ends", "spans", "requests"], requests: { count: 1_000 } }]);
    expect((await ask(backend, { service: "shop-api" })).matched).toEqual(["service:api"]);
    const twice = spansOf(call("web", "shop-api", 200), call("web", "api", 40), call("shop-api", "api", 8));
    const both = await ask({ ...backend, ...twice, edgeRed: async () => ({ edges: [], windowMs: 1 }) });
    expect(both.edges).toMatchObject([{ evidence: ["both-ends", "spans"], requests: { count: 240, perSecond: 2.4, errorRatio: 0.25 } }]);
  });

  it("works without spans when they cannot be read, and notes it", async () => {
    const answer = await ask({
      edges: async () => networkOf([edgeOf("web", "api", 80)]),
      spanEdges: () => Promise.reject(new Error("out of memory")),
    });
    expect(answer.edges).toHaveLength(1);
    expect(answer.completeness.notes).toContainEqual(
      expect.objectContaining({ kind: "unavailable", message: expect.stringContaining("out of memory") as string }),
    );
  });
});
