import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { type Clock, systemClock } from "../../base/clock.ts";
import { createLogger, type LogRecord, silentLogger } from "../../base/log.ts";
import { createHostReader, type HostSnapshot } from "../../host/index.ts";
import { host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess, type Signal } from "../../store/signals/index.ts";
import { createHostCollector } from "./host-collector.ts";
import { processOf, scriptedReader, snapshotOf, ticksOf } from "./host-snapshot.fixture.ts";

/** Advances by 15 s with every reading of the monotonic clock. */
function steppingClock(): Clock & { readings: number } {
  const clock = {
    readings: 0,
    monotonicMs: () => 1000 + clock.readings++ * 15_000,
    wallMs: () => 1_700_000_000_000.5,
  };
  return clock;
}

function statWith(user: number, idle: number): HostSnapshot["stat"] {
  return { ...snapshotOf().stat, total: ticksOf({ user, idle }) };
}

describe("createHostCollector()", () => {
  it("has a row at once, from a short baseline, then one per sample", async () => {
    const reader = scriptedReader([
      snapshotOf({ stat: statWith(0, 0) }),
      snapshotOf({ stat: statWith(25, 75) }),
      snapshotOf({ stat: statWith(100, 100) }),
    ]);
    const clock = steppingClock();
    const collector = createHostCollector({ reader, clock, topProcesses: () => 5, log: silentLogger, baselineMs: 1 });
    const first = await collector.sample();
    expect(reader.taken).toBe(2);
    expect(first.host).toMatchObject([{ cpu_busy_ratio: 0.25, interval_ms: 15_000, mono_ms: 16_000, at: 1_700_000_000_000_500 }]);
    const second = await collector.sample();
    expect(second.host).toMatchObject([{ cpu_busy_ratio: 0.75, mono_ms: 31_000 }]);
    expect(reader.taken).toBe(3);
    // One monotonic reading per snapshot.
    expect(clock.readings).toBe(3);
  });

  it("reads the number of top processes for each sample, and clamps it", async () => {
    const processes = Array.from({ length: 300 }, (_, index) => processOf(index + 1, { rssPages: index + 1, threads: 1 }));
    const reader = scriptedReader([snapshotOf({ processes: { ...snapshotOf().processes, processes } })]);
    let count = 2;
    const collector = createHostCollector({ reader, clock: steppingClock(), topProcesses: () => count, log: silentLogger, baselineMs: 1 });
    // The top 2 by memory and, all having one thread, the first 2 by threads.
    expect((await collector.sample()).hostProcess).toHaveLength(4);
    count = 1_000_000;
    expect((await collector.sample()).hostProcess).toHaveLength(200);
    count = -3;
    expect((await collector.sample()).hostProcess).toHaveLength(2);
  });

  it("samples the processes of services every minute, and new ones at once", async () => {
    const processes = Array.from({ length: 50 }, (_, index) => processOf(index + 1, { rssPages: index + 1, threads: 1 }));
    const reader = scriptedReader([snapshotOf({ processes: { ...snapshotOf().processes, processes } })]);
    const pids = new Set([20, 21]);
    const servicePids = () => new Set(pids);
    const options = { reader, clock: steppingClock(), topProcesses: () => 1, servicePids, log: silentLogger, baselineMs: 1 };
    const collector = createHostCollector(options);
    const counts: number[] = [];
    for (let sample = 0; sample < 6; sample++) {
      if (sample === 2) pids.add(22);
      counts.push((await collector.sample()).hostProcess.length);
    }
    // A sample every 15 seconds: the largest by memory and the first by threads, and those of services.
    expect(counts).toEqual([4, 2, 3, 2, 5, 2]);
  });

  it("notes what could not be read, and warns once about a file system that does not respond", async () => {
    const records: LogRecord[] = [];
    const log = createLogger("test", "debug", (record) => records.push(record));
    const dead = snapshotOf({ mounts: { mounts: [], unresponsive: ["/nfs"], failed: 0, cut: 0 } });
    const collector = createHostCollector({
      reader: scriptedReader([dead, dead, dead, snapshotOf()]),
      clock: steppingClock(),
      topProcesses: () => 1,
      log,
      baselineMs: 1,
    });
    expect(collector.notes()).toEqual([]);
    await collector.sample();
    await collector.sample();
    expect(collector.notes()).toEqual([expect.stringContaining('"/nfs" did not respond')]);
    await collector.sample();
    expect(collector.notes()).toEqual([]);
    expect(records.map((record) => record.message)).toEqual(["file system does not respond; skipping it", "file system responds again"]);
  });

  it("stops when aborted, also during the baseline", async () => {
    const stop = new AbortController();
    const collector = createHostCollector({
      reader: scriptedReader([]),
      clock: steppingClock(),
      topProcesses: () => 1,
      log: silentLogger,
      baselineMs: 60_000,
    });
    const sample = collector.sample(stop.signal);
    stop.abort(new Error("enough"));
    await expect(sample).rejects.toThrow("enough");
  });
});

describe("createHostCollector() on this machine", () => {
  it("fills every column of every signal", async () => {
    const collector = createHostCollector({ reader: createHostReader(), clock: systemClock, topProcesses: () => 5, log: silentLogger });
    const rows = await collector.sample();
    const all: [Signal, object[]][] = [
      [host, rows.host],
      [hostCpu, rows.hostCpu],
      [hostMount, rows.hostMount],
      [hostDisk, rows.hostDisk],
      [hostInterface, rows.hostInterface],
      [hostCgroup, rows.hostCgroup],
      [hostProcess, rows.hostProcess],
    ];
    expect(rows.host).toHaveLength(1);
    expect(rows.hostCpu.length).toBeGreaterThan(0);
    expect(rows.hostProcess.length).toBeGreaterThan(0);
    for (const [signal, list] of all) {
      for (const row of list) {
        expect(Object.keys(row).sort(), signal.name).toEqual([...Object.keys(signal.columns), "at", "mono_ms"].sort());
        for (const [column, spec] of Object.entries(signal.columns)) {
          const value: unknown = Reflect.get(row, column);
          const where = `${signal.name}.${column} is ${String(value)}`;
          if (value === null) expect(spec.endsWith("?"), where).toBe(true);
          else if (spec.startsWith("int")) expect(Number.isSafeInteger(value) && (value as number) >= 0, where).toBe(true);
          else if (spec.startsWith("float")) expect(Number.isFinite(value) && (value as number) >= 0, where).toBe(true);
          else expect(typeof value, where).toBe(spec.startsWith("bool") ? "boolean" : "string");
          if (column.endsWith("_ratio") && value !== null) expect(value, where).toBeLessThanOrEqual(1);
        }
      }
    }
  });

  it("reports a process that burns CPU", async () => {
    const child = spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
    try {
      await once(child, "spawn");
      const collector = createHostCollector({
        reader: createHostReader(),
        clock: systemClock,
        topProcesses: () => 3,
        log: silentLogger,
        baselineMs: 100,
      });
      await vi.waitFor(
        async () => {
          const rows = await collector.sample();
          const row = rows.hostProcess.find((one) => one.pid === child.pid);
          expect(row?.cpu_cores).toBeGreaterThan(0.1);
          expect(row).toMatchObject({ exe: process.execPath, user_id: process.geteuid!() });
          expect(rows.host[0]!.cpu_busy_ratio).toBeGreaterThan(0.05);
        },
        { timeout: 10_000, interval: 200 },
      );
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  });
});
