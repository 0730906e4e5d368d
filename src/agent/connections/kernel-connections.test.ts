import { describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { createLogger, silentLogger } from "../../base/log.ts";
import type { ConnectionEvent, ConnectionsReport } from "../../traffic/index.ts";
import { createKernelConnections, type KernelConnectionsOptions } from "./kernel-connections.ts";

const report = (more: Partial<ConnectionsReport> = {}): ConnectionsReport => ({
  kind: "connections",
  events: [],
  peers: [],
  lost: 0,
  mark: null,
  ...more,
});
const event = (kind: ConnectionEvent["kind"]): ConnectionEvent => ({
  kind,
  role: "client",
  pid: 5,
  networkNamespace: 1,
  localAddress: "10.0.0.1",
  localPort: 40_000,
  remoteAddress: "10.0.0.2",
  remotePort: 80,
  startedNs: 1n,
  atNs: 2n,
  bytesSent: 0,
  bytesReceived: 0,
  rttUs: null,
  retransmits: 0,
  reason: null,
});
const on = { kind: "connections-state", problem: null } as const;

/** A traffic process that answers marks, as long as it is told to. */
function setUp(more: Partial<KernelConnectionsOptions> = {}) {
  const log: string[] = [];
  const state = { answers: true, log, extra: [] as ConnectionEvent[] };
  const kernel = createKernelConnections({
    isWanted: () => true,
    mark: (phase, mark) => {
      log.push(phase);
      if (state.answers) setImmediate(() => kernel.accept(report({ mark, events: state.extra.splice(0) })));
      return true;
    },
    onNews: () => log.push("news"),
    onNewPeer: () => log.push("scan soon"),
    clock: systemClock,
    log: silentLogger,
    timeoutMs: 50,
    ...more,
  });
  return { kernel, state };
}

describe("createKernelConnections()", () => {
  it("counts from the first marked scan on, and keeps what ends during a scan for after it", async () => {
    const { kernel, state } = setUp();
    expect(await kernel.beginScan()).toBe(false);
    expect(kernel.problem()).toMatch(/has not said yet/);
    expect(kernel.capability()).toEqual({ name: "connections", available: true, reason: "" });
    kernel.accept(on);
    expect(state.log).toEqual(["scan soon"]);
    kernel.accept(report({ events: [event("closed")] }));
    expect(kernel.take().events).toEqual([]);
    expect(kernel.problem()).toBe("the kernel is listened to from the next scan on");
    expect(await kernel.beginScan()).toBe(true);
    state.extra.push(event("closed"));
    kernel.accept(report({ events: [event("failed")] }));
    expect(state.log).toEqual(["scan soon", "begin"]);
    expect(await kernel.endScan()).toBe(true);
    expect(kernel.take().events.map(({ kind }) => kind)).toEqual(["failed", "closed"]);
    kernel.accept(report({ events: [event("closed")] }));
    expect(state.log.at(-1)).toBe("news");
    expect(kernel.problem()).toBe(null);
  });

  it("asks for a scan for the sake of new peers, but not for each of many", async () => {
    const { kernel, state } = setUp();
    kernel.accept(on);
    await kernel.beginScan();
    await kernel.endScan();
    for (let index = 0; index < 20; index++) kernel.accept(report({ events: [event("opened")] }));
    expect(state.log.filter((line) => line === "scan soon")).toHaveLength(4);
  });

  it("goes without the kernel when it does not answer, until it is back", async () => {
    const { kernel, state } = setUp();
    kernel.accept(on);
    expect(await kernel.beginScan()).toBe(true);
    state.answers = false;
    expect(await kernel.endScan()).toBe(false);
    expect(kernel.problem()).toBe("the traffic process does not answer");
    expect(kernel.capability()).toEqual({ name: "connections", available: false, reason: "the traffic process does not answer" });
    expect(kernel.take()).toEqual({ events: [], peers: [] });
    expect(await kernel.beginScan()).toBe(false);
    state.answers = true;
    kernel.accept(on);
    expect(await kernel.beginScan()).toBe(true);
    kernel.lost("it ended");
    expect([kernel.isScanning, kernel.problem(), await kernel.endScan()]).toEqual([false, "it ended", false]);
  });

  it("warns of a process that was lost, not of one that was ended", () => {
    const lines: string[] = [];
    const { kernel } = setUp({ log: createLogger("test", "warn", ({ message }) => lines.push(message)) });
    kernel.accept(on);
    kernel.ended("the agent is stopping");
    expect([kernel.problem(), lines]).toEqual(["the agent is stopping", []]);
    kernel.accept(on);
    kernel.lost("it ended");
    expect(lines).toEqual(["Connections are only scanned: it ended"]);
  });

  it("takes nothing when another backend is wanted", async () => {
    const { kernel, state } = setUp({ isWanted: () => false });
    kernel.accept(on);
    expect(await kernel.beginScan()).toBe(false);
    kernel.accept(report({ events: [event("closed")] }));
    expect([kernel.take().events, state.log]).toEqual([[], []]);
    expect(kernel.capability()).toMatchObject({ available: false });
  });
});
