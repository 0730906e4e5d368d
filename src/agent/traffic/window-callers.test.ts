import { describe, expect, it } from "vitest";
import type { RequestGroup } from "../../traffic/index.ts";
import { requestGroup } from "./traffic-window.fixture.ts";
import { WindowCallers } from "./window-callers.ts";

const loopback = { peerAddress: "127.0.0.1", serverPort: 5432 };
const served = (route: string, count: number, more: Partial<RequestGroup> = {}) =>
  requestGroup({ pid: 5, role: "server", route, count, ...loopback, ...more });
const sent = (pid: number, route: string, count: number) => requestGroup({ pid, role: "client", route, count, ...loopback });
const names = new Map([
  [6, "api"],
  [7, "worker"],
]);
const peersOf = (group: RequestGroup, ...clients: RequestGroup[]) =>
  new WindowCallers(clients, ({ pid }) => names.get(pid) ?? null).of(group)?.map(({ peer, group: { count } }) => `${peer} ${count}`);

describe("WindowCallers", () => {
  it("among several callers of a port, names the one that sent requests of the same kind", () => {
    const clients = [sent(6, "/a", 10), sent(7, "/b", 5)];
    expect(peersOf(served("/a", 10), ...clients)).toEqual(["api 10"]);
    expect(peersOf(served("/b", 5), ...clients)).toEqual(["worker 5"]);
    expect(peersOf(served("/c", 5), ...clients)).toEqual(["null 5"]);
    expect(peersOf(served("/c", 5), sent(6, "/a", 10))).toEqual(["api 5"]);
  });

  it("divides requests of one kind by what each caller sent, if the counts match", () => {
    expect(peersOf(served("/a", 100), sent(6, "/a", 70), sent(7, "/a", 30))).toEqual(["api 70", "worker 30"]);
    expect(peersOf(served("/a", 101), sent(6, "/a", 70), sent(7, "/a", 30))).toEqual(["api 71", "worker 30"]);
    expect(peersOf(served("/a", 200), sent(6, "/a", 70), sent(7, "/a", 30))).toEqual(["null 200"]);
    expect(peersOf(served("/a", 100), sent(6, "/a", 70), sent(99, "/a", 30))).toEqual(["api 70", "null 30"]);
  });

  it("loses no request and no bucket of a histogram", () => {
    const group = served("/a", 7, { duration: { lo: 3, counts: [1, 2, 4] } });
    const parts = new WindowCallers([sent(6, "/a", 3), sent(7, "/a", 4)], ({ pid }) => names.get(pid) ?? null).of(group) ?? [];
    expect(parts.map(({ group: { count } }) => count)).toEqual([3, 4]);
    for (const [index, count] of [1, 2, 4].entries())
      expect(parts.reduce((sum, part) => sum + (part.group.duration.counts[index] ?? 0), 0)).toBe(count);
  });

  it("names no caller for clients, other addresses, and ports without a caller in the window", () => {
    expect(peersOf(sent(6, "/a", 1), sent(6, "/a", 1))).toBeUndefined();
    expect(peersOf(served("/a", 1, { peerAddress: "10.0.0.9" }), sent(6, "/a", 1))).toBeUndefined();
    expect(peersOf(served("/a", 1))).toBeUndefined();
  });
});
