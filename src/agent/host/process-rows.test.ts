import { describe, expect, it } from "vitest";
import type { HostSnapshot, ProcessStat } from "../../host/index.ts";
import { createCounterDeltas } from "./counter-deltas.ts";
import { processOf, scriptedReader, snapshotOf } from "./host-snapshot.fixture.ts";
import { largest, processRows } from "./process-rows.ts";

const scan = (processes: ProcessStat[]): Partial<HostSnapshot> => ({ processes: { ...snapshotOf().processes, processes } });

function rowsOf(
  before: ProcessStat[],
  now: ProcessStat[],
  count = 10,
  openFiles = new Map<number, number>(),
  services = new Set<number>(),
  due: ReadonlySet<number> = services,
) {
  const pair = {
    before: snapshotOf({ ...scan(before), uptimeS: 1000 }),
    now: snapshotOf({ ...scan(now), uptimeS: 1010, openFiles }),
    time: { at: 1, mono_ms: 2 },
    intervalMs: 10_000,
    deltas: createCounterDeltas(10),
  };
  return processRows(pair, scriptedReader([]), count, { all: services, due });
}

describe("largest()", () => {
  it("returns the highest scores in order, without zeros", () => {
    const random = [5, 0, 9, 3, 9, 1, 7];
    expect(largest(random, 3, (value) => value)).toEqual([9, 9, 7]);
    expect(largest(random, 50, (value) => value)).toEqual([9, 9, 7, 5, 3, 1]);
    expect(largest([], 3, Number)).toEqual([]);
  });

  it("returns the same as sorting", () => {
    const values = Array.from({ length: 500 }, (_, index) => (index * 7919) % 503);
    const sorted = values.filter((value) => value > 0).sort((a, b) => b - a);
    expect(largest(values, 20, (value) => value)).toEqual(sorted.slice(0, 20));
  });
});

describe("processRows()", () => {
  it("includes every process of a service, even if it is not among the top ones", () => {
    const idle = [1, 2, 3, 4].map((pid) => processOf(pid, { cpuTicks: 0, rssPages: pid, threads: 1 }));
    expect(rowsOf(idle, idle, 1).map(({ pid }) => pid)).not.toContain(2);
    const rows = rowsOf(idle, idle, 1, new Map(), new Set([2, 3, 999]));
    expect(rows.filter(({ pid }) => pid === 2 || pid === 3)).toMatchObject([
      { pid: 2, cpu_cores: 0 },
      { pid: 3, cpu_cores: 0 },
    ]);
    expect(new Set(rows.map(({ pid }) => pid)).size).toBe(rows.length);
  });

  it("has a process of a service that is busy in every sample, beside busier programs", () => {
    const before = [1, 2, 3, 4].map((pid) => processOf(pid, { cpuTicks: 0, rssPages: pid, threads: 1 }));
    // 100 ticks a second, 10 seconds: 0.9 cores of a stranger, 0.3 and 0.01 of services.
    const ticks = new Map([
      [1, 900],
      [2, 300],
      [3, 10],
    ]);
    const now = before.map((one) => ({ ...one, cpuTicks: ticks.get(one.pid) ?? 0 }));
    const pids = rowsOf(before, now, 1, new Map(), new Set([2, 3]), new Set()).map(({ pid }) => pid);
    expect(pids).toContain(2);
    expect(pids).not.toContain(3);
  });

  it("makes a row", () => {
    expect(
      rowsOf(
        [processOf(5, { cpuTicks: 100, majorFaults: 1 })],
        [processOf(5, { cpuTicks: 600, majorFaults: 21, rssPages: 3, threads: 8, state: "R" })],
      ),
    ).toEqual([
      {
        at: 1,
        mono_ms: 2,
        pid: 5,
        start_ticks: 50,
        name: "p5",
        exe: "/bin/p5",
        user_id: 7,
        cgroup: "/",
        state: "R",
        cpu_cores: 0.5,
        rss_bytes: 12_288,
        threads: 8,
        open_files: 3,
        major_faults_per_s: 2,
      },
    ]);
  });

  it("returns the union of the top processes by CPU, memory, threads and open files", () => {
    const idle = Array.from({ length: 50 }, (_, index) => processOf(100 + index));
    const now = [
      ...idle,
      processOf(1, { cpuTicks: 10 }),
      processOf(2, { rssPages: 10 }),
      processOf(3, { threads: 10 }),
      processOf(4),
      processOf(6, { cpuTicks: 5, rssPages: 5, threads: 5 }),
    ];
    const rows = rowsOf([...idle, ...[1, 2, 3, 4, 6].map((pid) => processOf(pid))], now, 1, new Map([[4, 99]]));
    expect(rows.map((row) => row.pid)).toEqual([1, 2, 3, 4]);
  });

  it("counts all CPU time of a process that started in the interval, and none of one that became visible", () => {
    const rows = rowsOf(
      [],
      [processOf(1, { startTicks: 100_500, cpuTicks: 200, threads: 2 }), processOf(2, { startTicks: 99, cpuTicks: 90_000, threads: 2 })],
    );
    expect(rows.map((row) => [row.pid, row.cpu_cores])).toEqual([
      [1, 0.2],
      [2, 0],
    ]);
  });

  it("does not confuse processes when a pid is reused", () => {
    const rows = rowsOf([processOf(1, { startTicks: 50, cpuTicks: 5000 })], [processOf(1, { startTicks: 100_900, cpuTicks: 100 })]);
    expect(rows).toMatchObject([{ start_ticks: 100_900, cpu_cores: 0.1 }]);
  });

  it("skips processes that exited before they could be read", () => {
    expect(rowsOf([], [processOf(1, { name: "gone", threads: 4 })])).toEqual([]);
  });
});
