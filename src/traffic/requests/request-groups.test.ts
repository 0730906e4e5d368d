import { describe, expect, it } from "vitest";
import { bucketOf, coarseLayout, fineLayout } from "../../base/latency-histogram.ts";
import type { FinishedRequest } from "../core/protocol-decoder.ts";
import { type Endpoint, RequestGroups } from "./request-groups.ts";

const endpoint: Endpoint = { pid: 7, role: "server", protocol: "redis", isTls: false, serverPort: 6379, peerAddress: "10.0.0.1" };

function request(changes: Partial<FinishedRequest> = {}): FinishedRequest {
  return {
    ...{ method: "GET", route: "GET", status: "", isError: false, durationNs: 5000, queueNs: null, firstByteNs: 4000 },
    ...{ endNs: 1e9, requestBytes: 10, responseBytes: 20 },
    ...changes,
  };
}

describe("RequestGroups", () => {
  it("sums equal requests, and starts each window at zero", () => {
    const groups = new RequestGroups();
    const own = groups.endpoint(endpoint);
    groups.add(own, request());
    groups.add(own, request({ durationNs: 700_000, queueNs: 3000, firstByteNs: null }));
    groups.add(own, request({ durationNs: 2000 }));
    groups.add(own, request({ status: "ERR", isError: true }));
    const { requests, overflow } = groups.take();
    expect(overflow).toBe(0);
    expect(requests).toHaveLength(2);
    const lo = bucketOf(fineLayout, 2000);
    const counts = Array(bucketOf(fineLayout, 700_000) - lo + 1).fill(0);
    counts[0] = 1;
    counts[bucketOf(fineLayout, 5000) - lo] = 1;
    counts[counts.length - 1] = 1;
    expect(requests[0]).toEqual({
      ...endpoint,
      ...{ method: "GET", route: "GET", status: "", isError: false, count: 3, requestBytes: 30, responseBytes: 60 },
      ...{ durationSumNs: 707_000, queueSumNs: 3000, queueCount: 1 },
      duration: { lo, counts },
      queue: { lo: bucketOf(coarseLayout, 3000), counts: [1] },
      firstByte: { lo: bucketOf(coarseLayout, 4000), counts: [2] },
    });
    expect(requests[1]).toMatchObject({ status: "ERR", isError: true, count: 1 });
    expect(groups.take().requests).toEqual([]);
    groups.add(own, request());
    expect(groups.take().requests).toMatchObject([{ count: 1, durationSumNs: 5000, queueCount: 0, queue: { counts: [] } }]);
  });

  it("separates a protocol from the one that carries it", () => {
    const groups = new RequestGroups();
    groups.add(groups.endpoint(endpoint), request({ protocol: "grpc" }));
    expect(groups.take().requests).toMatchObject([{ protocol: "grpc", count: 1 }]);
  });

  it("counts requests above the bound under other, and as overflow", () => {
    const groups = new RequestGroups({ maxGroups: 10 });
    const own = groups.endpoint(endpoint);
    for (let index = 0; index < 50; index++) groups.add(own, request({ route: `R${index}`, method: `M${index}` }));
    const { requests, overflow } = groups.take();
    expect(overflow).toBe(40);
    expect(requests).toHaveLength(11);
    expect(requests.find(({ route }) => route === "other")).toMatchObject({ count: 40, method: "" });
  });

  it("stays bounded with any number of peers and statuses, and loses no request before twice the bound", () => {
    const groups = new RequestGroups({ maxGroups: 20 });
    for (let index = 0; index < 5000; index++) {
      const peer = groups.endpoint({ ...endpoint, peerAddress: `10.0.${index >> 8}.${index & 255}` });
      groups.add(peer, request({ route: `R${index}`, status: `${index}` }));
    }
    expect(groups.groupCount).toBeLessThanOrEqual(40);
    const { requests, overflow } = groups.take();
    expect(overflow).toBe(4980);
    expect(requests.reduce((sum, { count }) => sum + count, 0)).toBe(5000);
  });

  it("reports requests that are in no group separately from those without a route", () => {
    const groups = new RequestGroups({ maxGroups: 4 });
    for (let pid = 0; pid < 20; pid++) {
      const own = groups.endpoint({ ...endpoint, pid });
      for (let index = 0; index < 3; index++) groups.add(own, request({ route: `R${index}` }));
    }
    const { requests, overflow, uncounted } = groups.take();
    const of = (isOther: boolean) =>
      requests.filter(({ route }) => (route === "other") === isOther).reduce((sum, { count }) => sum + count, 0);
    expect(uncounted).toBeGreaterThan(0);
    expect([of(true), of(true) + of(false) + uncounted]).toEqual([overflow, 60]);
  });

  it("drops unused groups, and re-creates a dropped endpoint", () => {
    const groups = new RequestGroups({ maxIdleWindows: 2 });
    const own = groups.endpoint(endpoint);
    groups.add(own, request());
    for (let window = 0; window < 3; window++) groups.take();
    expect(groups.groupCount).toBe(1);
    groups.take();
    expect([groups.groupCount, own.isDropped]).toEqual([0, true]);
    groups.add(own, request());
    expect(groups.take().requests).toMatchObject([{ count: 1 }]);
  });
});
