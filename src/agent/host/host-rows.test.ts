import { describe, expect, it } from "vitest";
import type { HostSnapshot } from "../../host/index.ts";
import { createCounterDeltas } from "./counter-deltas.ts";
import { cgroupRows, cpuRatios, cpuRows, diskRows, hostRow, interfaceRows, mountRows, type SnapshotPair } from "./host-rows.ts";
import { cgroupOf, diskOf, interfaceOf, snapshotOf, ticksOf } from "./host-snapshot.fixture.ts";

const time = { at: 5_000_000, mono_ms: 77 };
/** Ten seconds apart. */
function pairOf(before: Partial<HostSnapshot>, now: Partial<HostSnapshot>): SnapshotPair {
  return { before: snapshotOf(before), now: snapshotOf(now), time, intervalMs: 10_000, deltas: createCounterDeltas(10) };
}

describe("cpuRatios()", () => {
  it("splits the elapsed CPU time", () => {
    const before = ticksOf({ user: 100, idle: 1000 });
    const now = ticksOf({ user: 140, nice: 10, system: 20, irq: 5, softirq: 5, steal: 10, iowait: 10, idle: 1100 });
    expect(cpuRatios(before, now)).toEqual({ busy: 0.45, user: 0.25, system: 0.15, iowait: 0.05, steal: 0.05, softirq: 0.025 });
  });

  it("is 0 when no time elapsed, and tolerates estimates that decrease", () => {
    expect(cpuRatios(ticksOf({ user: 5 }), ticksOf({ user: 5 })).busy).toBe(0);
    const ratios = cpuRatios(ticksOf({ iowait: 50, idle: 100 }), ticksOf({ user: 10, iowait: 40, idle: 110 }));
    expect(ratios).toMatchObject({ busy: 0.5, iowait: 0 });
  });
});

describe("hostRow()", () => {
  it("computes rates, increments and gauges", () => {
    const row = hostRow(
      pairOf(
        {
          stat: { ...snapshotOf().stat, contextSwitches: 1000, forks: 10 },
          virtualMemory: { swapInPages: 0, swapOutPages: 100, oomKills: 3 },
          pressure: { cpu: { someUs: 0, fullUs: 0 }, memory: { someUs: 0, fullUs: null }, io: { someUs: 1_000_000, fullUs: 0 } },
          tcp: { established: 1, outSegments: 100, retransmits: 0, attemptFails: 0, resetsSent: 0, listenOverflows: 5, listenDrops: 6 },
        },
        {
          stat: {
            ...snapshotOf().stat,
            cores: new Map([[0, ticksOf({})]]),
            contextSwitches: 21_000,
            forks: 60,
            processesRunning: 2,
            processesBlocked: 1,
          },
          virtualMemory: { swapInPages: 50, swapOutPages: 100, oomKills: 5 },
          pressure: { cpu: { someUs: 2_500_000, fullUs: 0 }, memory: { someUs: 0, fullUs: null }, io: { someUs: 99_000_000, fullUs: 0 } },
          tcp: { established: 9, outSegments: 600, retransmits: 10, attemptFails: 20, resetsSent: 30, listenOverflows: 7, listenDrops: 9 },
          load: { load1m: 1.5, load5m: 1, load15m: 0.5 },
          memory: { ...snapshotOf().memory, totalBytes: 100, availableBytes: 60, swapTotalBytes: 10, swapUsedBytes: 4 },
          uptimeS: 1234.9,
        },
      ),
    );
    expect(row).toMatchObject({
      ...time,
      interval_ms: 10_000,
      cpu_count: 1,
      context_switches_per_s: 2000,
      forks_per_s: 5,
      processes_running: 2,
      processes_blocked: 1,
      load_1m: 1.5,
      mem_available_bytes: 60,
      swap_used_bytes: 4,
      swap_in_per_s: 5,
      swap_out_per_s: 0,
      oom_kills: 2,
      psi_cpu_some_ratio: 0.25,
      psi_memory_some_ratio: 0,
      psi_memory_full_ratio: null,
      psi_io_some_ratio: 1,
      tcp_established: 9,
      tcp_out_segments_per_s: 50,
      tcp_retransmits_per_s: 1,
      tcp_listen_overflows: 2,
      tcp_listen_drops: 3,
      tcp_resets_sent_per_s: 3,
      tcp_attempt_fails_per_s: 2,
      uptime_s: 1234,
    });
  });

  it("has no negative rate after a reset, and counts the reset", () => {
    const pair = pairOf({ stat: { ...snapshotOf().stat, contextSwitches: 1_000_000 } }, {});
    expect(hostRow(pair).context_switches_per_s).toBe(0);
    expect(pair.deltas.resets).toBe(1);
  });

  it("has null pressure where the kernel reports none", () => {
    const none = { someUs: null, fullUs: null };
    expect(hostRow(pairOf({}, { pressure: { cpu: none, memory: none, io: none } })).psi_cpu_some_ratio).toBeNull();
  });
});

describe("cpuRows()", () => {
  it("has rows for cores online in both snapshots", () => {
    const statOf = (...cores: number[]) => ({
      ...snapshotOf().stat,
      cores: new Map(cores.map((core) => [core, ticksOf({ user: core * 10, idle: core * 10 })])),
    });
    const before = { ...statOf(0, 1, 2), cores: new Map([0, 1, 2].map((core) => [core, ticksOf({})])) };
    const rows = cpuRows(pairOf({ stat: before }, { stat: statOf(1, 2, 3) }));
    expect(rows.map((row) => [row.core, row.busy_ratio])).toEqual([
      [1, 0.5],
      [2, 0.5],
    ]);
  });
});

describe("mountRows()", () => {
  it("copies the values read", () => {
    const mount = {
      mount: "/",
      device: "/dev/vda",
      fsType: "ext4",
      sizeBytes: 10,
      usedBytes: 6,
      availableBytes: 3,
      inodesTotal: 5,
      inodesUsed: 2,
      readOnly: false,
    };
    expect(mountRows(pairOf({}, { mounts: { mounts: [mount], unresponsive: [], failed: 0, cut: 0 } }))).toEqual([
      {
        ...time,
        mount: "/",
        device: "/dev/vda",
        fs_type: "ext4",
        size_bytes: 10,
        used_bytes: 6,
        available_bytes: 3,
        inodes_total: 5,
        inodes_used: 2,
        read_only: false,
      },
    ]);
  });
});

describe("diskRows()", () => {
  const rowsOf = (before: Parameters<typeof diskOf>[0], now: Parameters<typeof diskOf>[0]) =>
    diskRows(pairOf({ disks: { disks: [diskOf(before)], cut: 0 } }, { disks: { disks: [diskOf(now)], cut: 0 } }));

  it("computes rates, latency, busy share and queue length", () => {
    const [row] = rowsOf(
      { reads: 10, readMs: 5 },
      { reads: 110, readBytes: 1_000_000, readMs: 205, writtenBytes: 0, busyMs: 2_500, weightedMs: 15_000 },
    );
    expect(row).toEqual({
      ...time,
      device: "vda",
      read_bytes_per_s: 100_000,
      write_bytes_per_s: 0,
      reads_per_s: 10,
      writes_per_s: 0,
      read_latency_ms: 2,
      write_latency_ms: null,
      busy_ratio: 0.25,
      queue_length: 1.5,
    });
  });

  it("handles the 32-bit wrap of the millisecond counters", () => {
    expect(rowsOf({ busyMs: 2 ** 32 - 1000, weightedMs: 2 ** 32 - 1000 }, { busyMs: 4000, weightedMs: 9000 })).toMatchObject([
      { busy_ratio: 0.5, queue_length: 1 },
    ]);
  });

  it("skips new and replaced devices", () => {
    expect(rowsOf({ device: "sda" }, { device: "sdb" })).toEqual([]);
    expect(rowsOf({ reads: 500 }, { reads: 3 })).toEqual([]);
  });
});

describe("interfaceRows()", () => {
  it("computes rates, errors and drops of the interval", () => {
    const before = interfaceOf({ rxBytes: 100, rxErrors: 5, txDrops: 7 });
    const now = interfaceOf({ rxBytes: 1100, txBytes: 50, rxPackets: 20, rxErrors: 8, txDrops: 7 });
    expect(interfaceRows(pairOf({ interfaces: { interfaces: [before], cut: 0 } }, { interfaces: { interfaces: [now], cut: 0 } }))).toEqual([
      {
        ...time,
        interface: "eth0",
        rx_bytes_per_s: 100,
        tx_bytes_per_s: 5,
        rx_packets_per_s: 2,
        tx_packets_per_s: 0,
        rx_errors: 3,
        tx_errors: 0,
        rx_drops: 0,
        tx_drops: 0,
      },
    ]);
  });
});

describe("cgroupRows()", () => {
  const rowsOf = (before: Parameters<typeof cgroupOf>[0], now: Parameters<typeof cgroupOf>[0]) => {
    const scan = (group: Parameters<typeof cgroupOf>[0]) => ({ ...snapshotOf().cgroups, groups: [cgroupOf(group)] });
    return cgroupRows(pairOf({ cgroups: scan(before) }, { cgroups: scan(now) }));
  };

  it("computes cores, throttling and OOM kills of the interval", () => {
    expect(
      rowsOf(
        { cpuUsageUs: 1_000_000, periods: 100, throttledPeriods: 10, oomKills: 1 },
        {
          cpuUsageUs: 16_000_000,
          cpuLimitCores: 2,
          periods: 200,
          throttledPeriods: 35,
          oomKills: 3,
          memoryUsedBytes: 5,
          memoryLimitBytes: 9,
          pids: 4,
        },
      ),
    ).toEqual([
      {
        ...time,
        cgroup: "/web",
        cpu_cores: 1.5,
        cpu_limit_cores: 2,
        throttled_ratio: 0.25,
        mem_used_bytes: 5,
        mem_limit_bytes: 9,
        oom_kills: 2,
        pids: 4,
      },
    ]);
  });

  it("has nulls for missing values, a new cgroup and a re-created one", () => {
    const nulls = { cpu_cores: null, throttled_ratio: null, oom_kills: null };
    expect(rowsOf({}, {})).toMatchObject([{ ...nulls, mem_used_bytes: null, pids: null, cpu_limit_cores: null }]);
    expect(rowsOf({ path: "/other" }, { cpuUsageUs: 5, oomKills: 1 })).toMatchObject([nulls]);
    expect(rowsOf({ cpuUsageUs: 9_000_000, oomKills: 4 }, { cpuUsageUs: 5, oomKills: 0 })).toMatchObject([nulls]);
  });

  it("reports no throttling while a limited cgroup is idle", () => {
    expect(rowsOf({ periods: 5, throttledPeriods: 5 }, { periods: 5, throttledPeriods: 5, cpuLimitCores: 1 })).toMatchObject([
      { throttled_ratio: 0 },
    ]);
  });
});
