import { expect, test } from "vitest";
import { topologyEdge } from "../../network.fixture.ts";
import { edgeText, joinPorts } from "./edge-text.ts";

const requests = { protocol: "http", count: 100, perSecond: 41, errorRatio: 0.02, p50Us: 500, p95Us: 12_000, p99Us: 20_000 };

test("edgeText() shows requests where hooks saw any, else connections", () => {
  const edge = topologyEdge("a", "b", { connectionsPerMinute: 45, openConnections: 3, port: 8080 });
  expect(edgeText(edge, false)).toBe("45 conn/min, 3 open, TCP 8080");
  expect(edgeText({ ...edge, requests }, false)).toBe("41 req/s, 2.0% errors, p95 12ms, HTTP");
  expect(edgeText({ ...edge, requests: { ...requests, errorRatio: 0, p95Us: null, protocol: "new" } }, false)).toBe("41 req/s, new");
  expect(edgeText({ ...edge, requests }, true)).toContain("p95 12ms, 45 conn/min, 3 open, HTTP, ");
});

test("joinPorts() sums the requests of many ports, with the percentiles of the busiest", () => {
  const edges = [1, 2, 3, 4].map((port) =>
    topologyEdge("a", "b", {
      port,
      requests: port === 4 ? null : { ...requests, count: port * 100, p95Us: port * 1_000, errorRatio: port === 3 ? 0.1 : 0 },
    }),
  );
  expect(joinPorts(edges)).toMatchObject([{ ports: 4, requests: { count: 600, perSecond: 123, errorRatio: 0.05, p95Us: 3_000 } }]);
  expect(joinPorts(edges.map((edge) => ({ ...edge, requests: null })))).toMatchObject([{ requests: null }]);
});
