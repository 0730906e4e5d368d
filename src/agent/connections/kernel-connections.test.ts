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

/** A traffic process that confirms marks while `state.confirms` is true. */
function setUp(more: Partial<KernelConnectionsOptions> = {}) {
  const log: string[] = [];
  const state = { confirms: true, log, extra: [] as ConnectionEvent[] };
  const kernel = createKernelConnections({
    isWanted: () => true,
    mark: (phase, mark) => {
      log.push(phase);
      if (state.confirms) setImmediate(() => kernel.accept(report({ mark, events: state.extra.splice(0) })));
      return true;
    },
    onEvents: () => log.push("events"),
    onScanWanted: () => log.push("scan soon"),
    clock: systemClock,
    log: silentLogger,
    timeoutMs: 50,
    ...more,
  });
  return { kernel, state };
}

describe("createKernelConnections()", () => {
  it("counts from the first marked scan on, and holds events during a scan until its end", async () => {
    const { kernel, state } = setUp();
    expect(await kernel.beginScan()).toBe(false);
    expect(kernel.problem()).toMatch(/is starting/);
    expect(kernel.capability()).toEqual({ name: "connections", available: true, reason: "" });
    kernel.accept(on);
    expect(state.log).toEqual(["scan soon"]);
    kernel.accept(report({ events: [event("closed")] }));
    expect(kernel.take().events).toEqual([]);
    expect(kernel.problem()).toBe("kernel events are counted from the next scan on");
    expect(await kernel.beginScan()).toBe(true);
    state.extra.push(event("closed"));
    kernel.accept(report({ events: [event("failed")] }));
    expect(state.log).toEqual(["scan soon", "begin"]);
    expect(await kernel.endScan()).toBe(true);
    expect(kernel.take().events.map(({ kind }) => kind)).toEqual(["failed", "closed"]);
    kernel.accept(report({ events: [event("closed")] }));
    expect(state.log.at(-1)).toBe("events");
    expect(kernel.problem()).toBe(null);
  });

  it("requests scans for new peers, at a limited rate", async () => {
    const { kernel, state } = setUp();
    kernel.accept(on);
    await kernel.beginScan();
    await kernel.endScan();
    for (let index = 0; index < 20; index++) kernel.accept(report({ events: [event("opened")] }));
    expect(state.log.filter((line) => line === "scan soon")).toHaveLength(4);
  });

  it("falls back to scans while the traffic process does not respond", async () => {
    const { kernel, state } = setUp();
    kernel.accept(on);
    expect(await kernel.beginScan()).toBe(true);
    state.confirms = false;
    expect(await kernel.endScan()).toBe(false);
    expect(kernel.problem()).toBe("the traffic process does not respond");
    expect(kernel.capability()).toEqual({ name: "connections", available: false, reason: "the traffic process does not respond" });
    expect(kernel.take()).toEqual({ events: [], peers: [] });
    expect(await kernel.beginScan()).toBe(false);
    state.confirms = true;
    kernel.accept(on);
    expect(await kernel.beginScan()).toBe(true);
    kernel.lost("it exited");
    expect([kernel.isScanning, kernel.problem(), await kernel.endScan()]).toEqual([false, "it exited", false]);
  });

  it("warns about a process that was lost, not about one that was stopped", () => {
    const lines: string[] = [];
    const { kernel } = setUp({ log: createLogger("test", "warn", ({ message }) => lines.push(message)) });
    kernel.accept(on);
    kernel.stopped("the agent is stopping");
    expect([kernel.problem(), lines]).toEqual(["the agent is stopping", []]);
    kernel.accept(on);
    kernel.lost("it exited");
    expect(lines).toEqual(["no connection events from the kernel: it exited; relying on scans"]);
  });

  it("ignores events when another backend is configured", async () => {
    const { kernel, state } = setUp({ isWanted: () => false });
    kernel.accept(on);
    expect(await kernel.beginScan()).toBe(false);
    kernel.accept(report({ events: [event("closed")] }));
    expect([kernel.take().events, state.log]).toEqual([[], []]);
    expect(kernel.capability()).toMatchObject({ available: false });
  });
});
