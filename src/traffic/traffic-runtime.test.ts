import { describe, expect, it, vi } from "vitest";
import { silentLogger } from "../base/log.ts";
import type { DrainLimits, RecordVisitor, RingBuffer } from "../bpf/index.ts";
import type { TrafficReport, TrafficState, TrafficWindow } from "./core/messages.ts";
import { type TrafficParts, TrafficRuntime } from "./traffic-runtime.ts";

/** A ring buffer whose records are strings. */
function fakeRing(): RingBuffer & { put(...texts: string[]): void } {
  let waiting: string[] = [];
  return {
    sizeBytes: 1000,
    pendingBytes: () => waiting.length * 10,
    drain: (visit: RecordVisitor, { maxRecords = 5 }: DrainLimits = {}) => {
      const taken = waiting.slice(0, maxRecords);
      waiting = waiting.slice(maxRecords);
      for (const text of taken) {
        const bytes = Buffer.from(text);
        visit(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0, bytes.length, bytes);
      }
      return taken.length;
    },
    put: (...texts) => {
      waiting.push(...texts);
    },
    [Symbol.dispose]: () => undefined,
  };
}

function setUp() {
  const ring = fakeRing();
  const listeners = new Set<() => void>();
  const timer = {
    onTick: (listener: () => void) => {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  };
  const reports: TrafficReport[] = [];
  const seen: string[] = [];
  const steps: number[] = [];
  const state = { nowMs: 5_000, cpuMicros: 0, sweeps: 0, busy: 0, isReady: true, tls: [] as TrafficState["tls"], runs: 0n };
  const parts: TrafficParts = {
    onRecord: (_view, offset, length, bytes) => {
      const text = bytes.toString("latin1", offset, offset + length);
      if (text === "bad") throw new Error("invalid record");
      seen.push(text);
    },
    sweep: () => void state.sweeps++,
    collect: (draft) => {
      draft.losses.set("ring-full", 3);
      draft.losses.set("unreadable", 0);
      draft.peerNames.push({ address: "::1", port: 1, name: seen.join(), source: "dns" });
    },
    setStep: (step) => steps.push(step),
    tls: () => state.tls,
  };
  const runtime = new TrafficRuntime({
    settings: { windowMs: 10_000, cpuBudget: 0.01 },
    hooks: "sockets",
    ring,
    programs: {
      stats: () => [{ runNs: state.runs * 500n, runs: state.runs }],
      enableStats: () => ({ [Symbol.dispose]: () => undefined }),
    },
    parts,
    timer,
    mapBytes: () => 77,
    report: (report) => reports.push(structuredClone(report)),
    onBusy: () => void state.busy++,
    isReady: () => state.isReady,
    log: silentLogger,
    nowMs: () => state.nowMs,
    cpuMicros: () => state.cpuMicros,
  });
  /** Runs a slice every 100 ms. */
  const pass = (ms: number): void => {
    for (let passed = 0; passed < ms; passed += 100) {
      state.nowMs += 100;
      runtime.runSlice();
    }
  };
  const windows = (): TrafficWindow[] => reports.filter((report) => report.kind === "window");
  const states = (): TrafficState[] => reports.filter((report) => report.kind === "state");
  return { runtime, ring, listeners, reports, seen, steps, state, pass, windows, states };
}

describe("TrafficRuntime", () => {
  it("reports once that the ring is busy", () => {
    const { ring, state, pass } = setUp();
    ring.put("a");
    pass(100);
    expect(state.busy).toBe(0);
    for (let round = 0; round < 3; round++) {
      ring.put("b", "c", "d", "e");
      pass(100);
    }
    expect(state.busy).toBe(1);
  });

  it("closes a window at its end, with everything that was in the ring", () => {
    const { ring, pass, windows, seen, state } = setUp();
    pass(9_900);
    ring.put("a", "b", "c", "d", "e", "f", "g");
    expect(windows()).toHaveLength(0);
    pass(100);
    expect(seen).toEqual(["a", "b", "c", "d", "e", "f", "g"]);
    expect(windows()).toMatchObject([
      {
        fromNs: 5_000_000_000n,
        toNs: 15_000_000_000n,
        losses: [{ loss: "ring-full", count: 3 }],
        peerNames: [{ name: "a,b,c,d,e,f,g" }],
        cost: { mapBytes: 77 },
      },
    ]);
    pass(10_000);
    expect(windows()[1]).toMatchObject({ fromNs: 15_000_000_000n, toNs: 25_000_000_000n });
    expect(state.sweeps).toBe(20);
  });

  it("extends a window while its predecessor is unsent", () => {
    const { pass, windows, state } = setUp();
    state.isReady = false;
    pass(25_000);
    expect(windows()).toHaveLength(0);
    state.isReady = true;
    pass(100);
    expect(windows()).toMatchObject([{ fromNs: 5_000_000_000n, toNs: 30_100_000_000n }]);
  });

  it("counts a record that cannot be decoded, and continues with the next", () => {
    const { ring, pass, windows, seen } = setUp();
    ring.put("one", "bad", "two");
    pass(10_000);
    expect(seen).toEqual(["one", "two"]);
    expect(windows()[0]?.losses).toContainEqual({ loss: "undecoded", count: 1 });
    pass(10_000);
    expect(windows()[1]?.losses).not.toContainEqual(expect.objectContaining({ loss: "undecoded" }));
  });

  it("scales the cost of programs from the measured part to the whole window", () => {
    const { pass, windows, state } = setUp();
    for (let runSlice = 0; runSlice < 100; runSlice++) {
      state.runs += 10n;
      pass(100);
    }
    // 10 runs of 500 ns in each tenth of a second.
    expect(windows()[0]?.cost.bpfRuns).toBeGreaterThanOrEqual(900);
    expect(windows()[0]?.cost.bpfRuns).toBeLessThanOrEqual(1_100);
    expect(windows()[0]?.cost.bpfNs).toBe((windows()[0]?.cost.bpfRuns ?? 0) * 500);
  });

  it("steps down when the process exceeds its budget, and reports the step", () => {
    const { runtime, pass, states, steps, state } = setUp();
    runtime.start();
    runtime[Symbol.dispose]();
    expect(states()).toMatchObject([{ hooks: "sockets", step: 0 }]);
    state.cpuMicros += 1_000_000;
    pass(19_900);
    expect(steps).toEqual([]);
    // The savings of ten minutes are spent after three windows at 24 times the budget.
    state.cpuMicros += 2_400_000;
    pass(9_900);
    state.cpuMicros += 2_400_000;
    pass(10_000);
    expect(steps).toEqual([]);
    state.cpuMicros += 2_400_000;
    pass(10_000);
    expect(steps).toEqual([2]);
    pass(10_000);
    expect(states().map(({ step }) => step)).toEqual([0, 2]);
    state.tls = [{ path: "/usr/lib/libssl.so.3", library: "openssl", processes: 2, problem: null }];
    pass(10_000);
    expect(states().at(-1)?.tls).toHaveLength(1);
    expect(states()).toHaveLength(3);
  });

  it("runs at every tick until it is disposed", () => {
    const { runtime, ring, listeners, seen } = setUp();
    runtime.start();
    ring.put("a");
    for (const tick of listeners) tick();
    expect(seen).toEqual(["a"]);
    runtime[Symbol.dispose]();
    expect(listeners.size).toBe(0);
    ring.put("b");
    runtime.wake();
    expect(seen).toEqual(["a"]);
  });

  it("repeats while the ring is above its wake-up level, yields in between, and leaves the rest to the next tick", async () => {
    const { runtime, ring, seen } = setUp();
    ring.put(...Array.from({ length: 26 }, () => "x"));
    runtime.wake();
    expect(seen).toHaveLength(5);
    await vi.waitFor(() => expect(ring.pendingBytes()).toBeLessThan(125));
    await new Promise(setImmediate);
    expect(seen).toHaveLength(15);
    runtime[Symbol.dispose]();
  });
});
