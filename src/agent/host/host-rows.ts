/** Rows of the host signals from two snapshots. Does no I/O. */

import type { CgroupUsage, CpuTicks, DiskCounters, HostSnapshot, InterfaceCounters, PressureTotals } from "../../host/index.ts";
import type {
  host,
  hostCgroup,
  hostCpu,
  hostDisk,
  hostInterface,
  hostMount,
  hostProcess,
  RowOf,
  SampleTime,
} from "../../store/signals/index.ts";
import { type CounterDeltas, ratioOf, roundTo } from "./counter-deltas.ts";

export type HostRow = RowOf<typeof host.columns>;
export type HostCpuRow = RowOf<typeof hostCpu.columns>;
export type HostMountRow = RowOf<typeof hostMount.columns>;
export type HostDiskRow = RowOf<typeof hostDisk.columns>;
export type HostInterfaceRow = RowOf<typeof hostInterface.columns>;
export type HostCgroupRow = RowOf<typeof hostCgroup.columns>;
export type HostProcessRow = RowOf<typeof hostProcess.columns>;

/** Two snapshots and the interval between them. */
export interface SnapshotPair {
  before: HostSnapshot;
  now: HostSnapshot;
  /** Timestamp of `now`, for every row. */
  time: SampleTime;
  /** Measured, not configured. */
  intervalMs: number;
  deltas: CounterDeltas;
}

interface CpuRatios {
  busy: number;
  user: number;
  system: number;
  iowait: number;
  steal: number;
  softirq: number;
}

/** Shares of CPU time. Busy is user + system + steal; system includes interrupts. */
export function cpuRatios(before: CpuTicks, now: CpuTicks): CpuRatios {
  // iowait and idle are estimates and may decrease slightly; that is not a reset.
  const grown = (kind: keyof CpuTicks): number => Math.max(0, now[kind] - before[kind]);
  const user = grown("user") + grown("nice");
  const softirq = grown("softirq");
  const system = grown("system") + grown("irq") + softirq;
  const steal = grown("steal");
  const iowait = grown("iowait");
  const total = user + system + steal + iowait + grown("idle");
  return {
    busy: ratioOf(user + system + steal, total),
    user: ratioOf(user, total),
    system: ratioOf(system, total),
    iowait: ratioOf(iowait, total),
    steal: ratioOf(steal, total),
    softirq: ratioOf(softirq, total),
  };
}

function pressureRatio(pair: SnapshotPair, kind: keyof PressureTotals, resource: "cpu" | "memory" | "io"): number | null {
  const before = pair.before.pressure[resource][kind];
  const now = pair.now.pressure[resource][kind];
  const stalledUs = before === null || now === null ? null : pair.deltas.of(before, now);
  return stalledUs === null ? null : ratioOf(stalledUs, pair.intervalMs * 1_000);
}

/** Ratios are shares of all cores together, 0 to 1. Load averages are the kernel's, which also count uninterruptible sleep. */
function cpuAndLoad({ before, now, deltas }: SnapshotPair) {
  const cpu = cpuRatios(before.stat.total, now.stat.total);
  return {
    cpu_count: now.stat.cores.size,
    cpu_busy_ratio: cpu.busy,
    cpu_user_ratio: cpu.user,
    cpu_system_ratio: cpu.system,
    cpu_iowait_ratio: cpu.iowait,
    cpu_steal_ratio: cpu.steal,
    load_1m: now.load.load1m,
    load_5m: now.load.load5m,
    load_15m: now.load.load15m,
    processes_running: now.stat.processesRunning,
    processes_blocked: now.stat.processesBlocked,
    processes_total: now.processes.processes.length + now.processes.cut,
    context_switches_per_s: deltas.perSecond(before.stat.contextSwitches, now.stat.contextSwitches),
    forks_per_s: deltas.perSecond(before.stat.forks, now.stat.forks),
    uptime_s: Math.floor(now.uptimeS),
  };
}

/** Swap rates are in pages. Out-of-memory kills are those of the interval. */
function memory({ before, now, deltas }: SnapshotPair) {
  const killsBefore = before.virtualMemory.oomKills;
  const killsNow = now.virtualMemory.oomKills;
  return {
    mem_total_bytes: now.memory.totalBytes,
    mem_available_bytes: now.memory.availableBytes,
    mem_cached_bytes: now.memory.cachedBytes,
    mem_dirty_bytes: now.memory.dirtyBytes,
    swap_total_bytes: now.memory.swapTotalBytes,
    swap_used_bytes: now.memory.swapUsedBytes,
    swap_in_per_s: deltas.perSecond(before.virtualMemory.swapInPages, now.virtualMemory.swapInPages),
    swap_out_per_s: deltas.perSecond(before.virtualMemory.swapOutPages, now.virtualMemory.swapOutPages),
    oom_kills: killsBefore === null || killsNow === null ? 0 : (deltas.of(killsBefore, killsNow) ?? 0),
  };
}

/** Listen overflows and drops are those of the interval. */
function tcp({ before, now, deltas }: SnapshotPair) {
  return {
    tcp_established: now.tcp.established,
    tcp_out_segments_per_s: deltas.perSecond(before.tcp.outSegments, now.tcp.outSegments),
    tcp_retransmits_per_s: deltas.perSecond(before.tcp.retransmits, now.tcp.retransmits),
    tcp_listen_overflows: deltas.of(before.tcp.listenOverflows, now.tcp.listenOverflows) ?? 0,
    tcp_listen_drops: deltas.of(before.tcp.listenDrops, now.tcp.listenDrops) ?? 0,
    tcp_resets_sent_per_s: deltas.perSecond(before.tcp.resetsSent, now.tcp.resetsSent),
    tcp_attempt_fails_per_s: deltas.perSecond(before.tcp.attemptFails, now.tcp.attemptFails),
  };
}

/** PSI ratios are shares of the interval in which tasks were stalled; null where the kernel has no PSI (before 4.20, or `psi=0`). */
export function hostRow(pair: SnapshotPair): HostRow {
  return {
    ...pair.time,
    interval_ms: Math.round(pair.intervalMs),
    ...cpuAndLoad(pair),
    ...memory(pair),
    psi_cpu_some_ratio: pressureRatio(pair, "someUs", "cpu"),
    psi_memory_some_ratio: pressureRatio(pair, "someUs", "memory"),
    psi_memory_full_ratio: pressureRatio(pair, "fullUs", "memory"),
    psi_io_some_ratio: pressureRatio(pair, "someUs", "io"),
    psi_io_full_ratio: pressureRatio(pair, "fullUs", "io"),
    ...tcp(pair),
  };
}

/** Cores offline in either snapshot have no row. */
export function cpuRows({ before, now, time }: SnapshotPair): HostCpuRow[] {
  const rows: HostCpuRow[] = [];
  for (const [core, ticks] of now.stat.cores) {
    const ticksBefore = before.stat.cores.get(core);
    if (!ticksBefore) continue;
    const { busy, user, system, iowait, steal, softirq } = cpuRatios(ticksBefore, ticks);
    rows.push({
      ...time,
      core,
      busy_ratio: busy,
      user_ratio: user,
      system_ratio: system,
      iowait_ratio: iowait,
      steal_ratio: steal,
      softirq_ratio: softirq,
    });
  }
  return rows;
}

/** `available_bytes` excludes blocks reserved for root, unlike size minus used. */
export function mountRows({ now, time }: SnapshotPair): HostMountRow[] {
  return now.mounts.mounts.map((mount) => ({
    ...time,
    mount: mount.mount,
    device: mount.device,
    fs_type: mount.fsType,
    size_bytes: mount.sizeBytes,
    used_bytes: mount.usedBytes,
    available_bytes: mount.availableBytes,
    inodes_total: mount.inodesTotal,
    inodes_used: mount.inodesUsed,
    read_only: mount.readOnly,
  }));
}

/** Increments of all counters of a device or interface; null when one was reset: the device was replaced during the interval. */
function growthOf<K extends string>(
  deltas: CounterDeltas,
  before: Readonly<Record<K, number>>,
  now: Readonly<Record<K, number>>,
  keys: readonly K[],
): Record<K, number> | null {
  const growth = {} as Record<K, number>;
  for (const key of keys) {
    const grown = deltas.of(before[key], now[key]);
    if (grown === null) return null;
    growth[key] = grown;
  }
  return growth;
}

const diskCounters = ["reads", "readBytes", "readMs", "writes", "writtenBytes", "writeMs", "busyMs", "weightedMs"] as const;

/** Devices without a counterpart in the previous snapshot have no rates and no row. */
export function diskRows({ before, now, time, intervalMs, deltas }: SnapshotPair): HostDiskRow[] {
  const known = new Map<string, DiskCounters>(before.disks.disks.map((disk) => [disk.device, disk]));
  const rows: HostDiskRow[] = [];
  const perSecond = (growth: number): number => roundTo((growth * 1_000) / intervalMs, 3);
  for (const disk of now.disks.disks) {
    const earlier = known.get(disk.device);
    const growth = earlier ? growthOf(deltas, earlier, disk, diskCounters) : null;
    if (!growth) continue;
    rows.push({
      ...time,
      device: disk.device,
      read_bytes_per_s: perSecond(growth.readBytes),
      write_bytes_per_s: perSecond(growth.writtenBytes),
      reads_per_s: perSecond(growth.reads),
      writes_per_s: perSecond(growth.writes),
      read_latency_ms: growth.reads === 0 ? null : roundTo(growth.readMs / growth.reads, 3),
      write_latency_ms: growth.writes === 0 ? null : roundTo(growth.writeMs / growth.writes, 3),
      busy_ratio: ratioOf(growth.busyMs, intervalMs),
      queue_length: roundTo(growth.weightedMs / intervalMs, 3),
    });
  }
  return rows;
}

const interfaceCounters = ["rxBytes", "txBytes", "rxPackets", "txPackets", "rxErrors", "txErrors", "rxDrops", "txDrops"] as const;

/** As for disks: new and replaced interfaces have no row in their first sample. */
export function interfaceRows({ before, now, time, intervalMs, deltas }: SnapshotPair): HostInterfaceRow[] {
  const known = new Map<string, InterfaceCounters>(before.interfaces.interfaces.map((item) => [item.name, item]));
  const rows: HostInterfaceRow[] = [];
  const perSecond = (growth: number): number => roundTo((growth * 1_000) / intervalMs, 3);
  for (const item of now.interfaces.interfaces) {
    const earlier = known.get(item.name);
    const growth = earlier ? growthOf(deltas, earlier, item, interfaceCounters) : null;
    if (!growth) continue;
    rows.push({
      ...time,
      interface: item.name,
      rx_bytes_per_s: perSecond(growth.rxBytes),
      tx_bytes_per_s: perSecond(growth.txBytes),
      rx_packets_per_s: perSecond(growth.rxPackets),
      tx_packets_per_s: perSecond(growth.txPackets),
      rx_errors: growth.rxErrors,
      tx_errors: growth.txErrors,
      rx_drops: growth.rxDrops,
      tx_drops: growth.txDrops,
    });
  }
  return rows;
}

/** A new or re-created cgroup has null rates until the next sample. */
export function cgroupRows({ before, now, time, intervalMs, deltas }: SnapshotPair): HostCgroupRow[] {
  const known = new Map<string, CgroupUsage>(before.cgroups.groups.map((group) => [group.path, group]));
  return now.cgroups.groups.map((group) => {
    const earlier = known.get(group.path);
    const grown = (key: "cpuUsageUs" | "periods" | "throttledPeriods" | "oomKills"): number | null => {
      const [first, second] = [earlier?.[key] ?? null, group[key]];
      return first === null || second === null ? null : deltas.of(first, second);
    };
    const cpuUs = grown("cpuUsageUs");
    const [periods, throttled] = [grown("periods"), grown("throttledPeriods")];
    return {
      ...time,
      cgroup: group.path,
      cpu_cores: cpuUs === null ? null : roundTo(cpuUs / 1_000 / intervalMs, 4),
      cpu_limit_cores: group.cpuLimitCores,
      // Periods only elapse while a cgroup with a CPU limit runs; without a limit the share is undefined.
      throttled_ratio: group.cpuLimitCores === null || periods === null || throttled === null ? null : ratioOf(throttled, periods),
      mem_used_bytes: group.memoryUsedBytes,
      mem_limit_bytes: group.memoryLimitBytes,
      oom_kills: grown("oomKills"),
      pids: group.pids,
    };
  });
}
