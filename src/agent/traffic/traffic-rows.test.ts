import { describe, expect, it } from "vitest";
import { type NamedGroup, trafficRows } from "./traffic-rows.ts";
import { requestGroup } from "./traffic-window.fixture.ts";

const options = { time: { at: 5_000, mono_ms: 5 }, windowMs: 10_000, maxRows: 1_000 };
const named = (more: Parameters<typeof requestGroup>[0] = {}, service = "shop", peer: string | null = null): NamedGroup => ({
  group: requestGroup(more),
  service,
  peer,
});

describe("trafficRows()", () => {
  it("merges the workers of a service into one row, with their histograms added", () => {
    const { rows, foldedRequests } = trafficRows(
      [
        named({ pid: 1, count: 3, duration: { lo: 5, counts: [1, 2] }, durationSumNs: 3_000, queueCount: 2, queueSumNs: 2_000 }),
        named({ pid: 2, count: 2, duration: { lo: 8, counts: [2] }, durationSumNs: 4_000, queueCount: 1, queueSumNs: 1_000 }),
        named({ pid: 2, count: 1, status: "500", isError: true }),
      ],
      options,
    );
    expect(foldedRequests).toBe(0);
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({
      at: 5_000,
      mono_ms: 5,
      service: "shop",
      requests: 5,
      duration_us: 7,
      queue_us: 3,
      queue_samples: 3,
      duration_lo: 5,
      duration_counts: [1, 2, 0, 2],
      window_ms: 10_000,
      peer: null,
    });
    expect(rows[1]).toMatchObject({ status: "500", is_error: true, requests: 1 });
  });

  it("merges the clients of a public service, except named ones and those with the most requests", () => {
    const groups = Array.from({ length: 50 }, (_, index) => named({ peerAddress: `203.0.113.${index}`, count: index + 1 }));
    const { rows } = trafficRows([...groups, named({ peerAddress: "10.0.0.1", count: 1 }, "shop", "cart")], { ...options, maxCallers: 10 });
    expect(rows).toHaveLength(12);
    expect(rows.find((row) => row.peer_address === "*")?.requests).toBe((40 * 41) / 2);
    expect(rows.find((row) => row.peer === "cart")).toMatchObject({ peer_address: "10.0.0.1" });
  });

  it("never exceeds the row limit, and drops no request for it", () => {
    const groups = Array.from({ length: 500 }, (_, index) =>
      named({ route: `/r${index}`, count: index + 1, role: "client", peerAddress: `10.0.0.${index % 250}` }, `service-${index % 3}`),
    );
    const { rows, foldedRequests } = trafficRows(groups, { ...options, maxRows: 100 });
    expect(rows.length).toBeLessThanOrEqual(100);
    expect(rows.reduce((sum, row) => sum + row.requests, 0)).toBe((500 * 501) / 2);
    const others = rows.filter((row) => row.route === "other");
    expect(others.reduce((sum, row) => sum + row.requests, 0)).toBe(foldedRequests);
    expect(rows.find((row) => row.route === "/r499")).toBeDefined();
  });

  it("counts only requests that lose their route here", () => {
    const groups = Array.from({ length: 200 }, (_, index) =>
      named({ route: index % 2 === 0 ? "other" : `/r${index}`, status: `${index}`, count: 1 }, "shop"),
    );
    const { rows, foldedRequests } = trafficRows(groups, { ...options, maxRows: 50 });
    const others = rows.filter((row) => row.route === "other").reduce((sum, row) => sum + row.requests, 0);
    expect(foldedRequests).toBe(others - 100);
  });

  it("keeps the largest services when there are more services than rows", () => {
    const groups = Array.from({ length: 300 }, (_, index) => named({ count: index + 1 }, `service-${index}`));
    const { rows } = trafficRows(groups, { ...options, maxRows: 100 });
    expect(rows).toHaveLength(100);
    expect(rows.map((row) => row.service)).toContain("service-299");
  });

  it("truncates long statements", () => {
    const { rows } = trafficRows([named({ route: `SELECT ${"x".repeat(5_000)}` })], options);
    expect(rows[0]?.route).toHaveLength(1_001);
  });
});
