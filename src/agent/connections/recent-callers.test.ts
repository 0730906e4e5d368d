import { expect, it } from "vitest";
import type { ConnectionEvent, PeerConnections } from "../../traffic/index.ts";
import { scanOf } from "../discovery/discovery-scan.fixture.ts";
import { RecentCallers } from "./recent-callers.ts";

/** Start times in nanoseconds. */
const create = () => new RecentCallers({ startedNs: (startTicks) => BigInt(startTicks) });
const peer = (pid: number, more: Partial<PeerConnections> = {}) =>
  ({ role: "client", pid, connections: 1, lastNs: 100n, ...more }) as PeerConnections;
const event = (pid: number, more: Partial<ConnectionEvent> = {}) =>
  ({ kind: "closed", role: "client", pid, startedNs: 100n, ...more }) as ConnectionEvent;
const scan = (...processes: { pid: number; start: number }[]) => scanOf({ processes });

it("keeps processes with short connections while they run", () => {
  const callers = create();
  callers.add({ events: [event(5)], peers: [peer(6), peer(7)] });
  expect([...callers.running(scan({ pid: 5, start: 1 }, { pid: 6, start: 1 }))]).toEqual([5, 6]);
  expect([...callers.running(scan({ pid: 5, start: 1 }, { pid: 6, start: 1 }, { pid: 7, start: 1 }))]).toEqual([5, 6]);
  expect([...callers.running(scan({ pid: 5, start: 200 }))]).toEqual([]);
});

it("ignores servers, failed attempts, unknown processes, and processes that started later", () => {
  const callers = create();
  callers.add({
    events: [event(5, { kind: "failed" }), event(6, { role: "server" }), event(0)],
    peers: [peer(7, { connections: 0 }), peer(8, { role: "server" }), peer(9)],
  });
  const all = [5, 6, 7, 8].map((pid) => ({ pid, start: 1 }));
  expect([...callers.running(scan(...all, { pid: 9, start: 101 }))]).toEqual([]);
});
