import { describe, expect, it, vi } from "vitest";
import type { ColonyBackend } from "../contract/backend.ts";
import { edgeOf, networkOf } from "../sample-colony.fixture.ts";
import type { Topology } from "../schemas/network.ts";
import { call } from "../traffic/traffic-tools.fixture.ts";

describe("coral_get_topology with requests", () => {
  const end = (kind: "service" | "external", name: string) => ({ kind, name });
  const times = { p50Us: 500, p95Us: 900, p99Us: 1_200 };

  it("puts requests on their edge once, and none where no hook ran", async () => {
    const answer = await call<Topology>(
      "coral_get_topology",
      {},
      {
        edges: async () =>
          networkOf([
            edgeOf("api", "db", 5432),
            edgeOf("api", "cache", 6379),
            edgeOf("api", "external:1.1.1.1", 53, { protocol: "udp" }),
            edgeOf("api", "external:1.1.1.1", 53),
          ]),
        edgeRed: async () => ({
          windowMs: 60_000,
          edges: [
            {
              client: end("service", "api"),
              server: end("service", "db"),
              serverPort: 5432,
              protocol: "postgres",
              requests: 600,
              errors: 6,
              ...times,
            },
            {
              client: end("service", "api"),
              server: end("external", "1.1.1.1"),
              serverPort: 53,
              protocol: "dns",
              requests: 60,
              errors: 0,
              ...times,
            },
            {
              client: end("service", "api"),
              server: end("service", "db"),
              serverPort: 1,
              protocol: "http",
              requests: 9,
              errors: 0,
              ...times,
            },
          ],
        }),
      },
    );
    const drawn = answer.edges.map(({ to, protocol, requests, evidence }) => [to, protocol, requests?.count ?? null, evidence]);
    expect(drawn).toHaveLength(4);
    expect(drawn).toEqual(
      expect.arrayContaining([
        ["service:db", "tcp", 600, ["both-ends", "requests"]],
        ["service:cache", "tcp", null, ["both-ends"]],
        ["external:1.1.1.1", "udp", 60, ["both-ends", "requests"]],
        ["external:1.1.1.1", "tcp", null, ["both-ends"]],
      ]),
    );
    expect(answer.edges.find((edge) => edge.to === "service:db")?.requests).toEqual({
      protocol: "postgres",
      count: 600,
      perSecond: 10,
      errorRatio: 0.01,
      ...times,
    });
  });

  it("counts only requests that the selected agent saw", async () => {
    const edgeRed = vi.fn<ColonyBackend["edgeRed"]>(async () => ({ windowMs: 1, edges: [] }));
    await call<Topology>("coral_get_topology", { agent: "web-2" }, { edgeRed });
    await call<Topology>("coral_get_topology", {}, { edgeRed });
    expect(edgeRed.mock.calls.map(([request]) => request)).toEqual([
      { sinceMs: 3_600_000, agentIds: ["web-2"], among: [] },
      { sinceMs: 3_600_000, among: [] },
    ]);
  });

  it("sums the addresses of one external name, with the percentiles of the busiest", async () => {
    const resolved = { name: "pay.example.com", method: "reverse_dns", provider: null, product: null };
    const edges = ["1.2.3.4", "1.2.3.5"].map((address) => {
      const edge = edgeOf("api", `external:${address}`, 443);
      return { ...edge, server: { ...edge.server, resolved } };
    });
    const answer = await call<Topology>(
      "coral_get_topology",
      {},
      {
        edges: async () => networkOf(edges),
        edgeRed: async () => ({
          windowMs: 1_000,
          edges: [
            {
              client: end("service", "api"),
              server: end("external", "1.2.3.4"),
              serverPort: 443,
              protocol: "http",
              requests: 1,
              errors: 1,
              ...times,
              p95Us: 5,
            },
            {
              client: end("service", "api"),
              server: end("external", "1.2.3.5"),
              serverPort: 443,
              protocol: "http",
              requests: 3,
              errors: 0,
              ...times,
            },
          ],
        }),
      },
    );
    expect(answer.edges.map((edge) => edge.requests)).toMatchObject([{ count: 4, errorRatio: 0.25, p95Us: 900 }]);
  });
});
