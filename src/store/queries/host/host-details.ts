/** Facts of hosts per device, control group and process: the newest sample, or averages over the window (at most its last hour). */

import type { HostCgroup, HostCore, HostDisk, HostInterface, HostMount, HostProcess, HostSample } from "../../../model/host.ts";
import {
  booleanIn,
  groupByAgent,
  isoTimeIn,
  numberIn,
  numberOrNullIn,
  placeholders,
  type Queryable,
  type QueryRow,
  textIn,
  textOrNullIn,
} from "../../tables/queryable.ts";
import { latestSampleSql } from "./latest-sample.ts";

/** Limits on the lists of one host. */
const coresMax = 16;
const devicesMax = 20;
const processesMax = 10;
const cgroupsByUseMax = 8;
const cgroupsMax = 30;
/** A control group throttled less than this is not notable. */
const throttledRatioMin = 0.01;

export interface HostDetails {
  sampledAt: string | null;
  latest: HostSample | null;
  cores: HostCore[];
  mounts: HostMount[];
  disks: HostDisk[];
  interfaces: HostInterface[];
  cgroups: HostCgroup[];
  topByCpu: HostProcess[];
  topByRss: HostProcess[];
}

type RowsByAgent = Map<string, QueryRow[]>;

export async function queryHostDetails(store: Queryable, agentIds: readonly string[], sinceMs: number): Promise<Map<string, HostDetails>> {
  const filter = `agent_id IN (${placeholders(agentIds)}) AND time >= make_timestamp(?)`;
  const parameters = [...agentIds, sinceMs * 1_000];
  // Gauges such as disk usage show the newest sample; rates are averaged over the window.
  const latest = async (signal: string): Promise<RowsByAgent> =>
    groupByAgent(await store.query(latestSampleSql(signal, filter), [...parameters, ...parameters]));
  const averages = async (signal: string, key: string, columns: string): Promise<RowsByAgent> =>
    groupByAgent(
      await store.query(
        `SELECT agent_id, ${key}, ${columns} FROM ${signal} WHERE ${filter} GROUP BY ALL ORDER BY agent_id, ${key}`,
        parameters,
      ),
    );
  const [hosts, cores, mounts, processes, disks, interfaces, cgroups] = await Promise.all([
    latest("host"),
    latest("host_cpu"),
    latest("host_mount"),
    latest("host_process"),
    averages("host_disk", "device", diskColumns),
    averages("host_interface", "interface", interfaceColumns),
    averages("host_cgroup", "cgroup", cgroupColumns),
  ]);
  return new Map(
    agentIds.map((agentId) => {
      const host = hosts.get(agentId)?.[0];
      const running = (processes.get(agentId) ?? []).map(processOf);
      const details: HostDetails = {
        sampledAt: host ? isoTimeIn(host, "time") : null,
        latest: host ? sampleOf(host) : null,
        cores: top((cores.get(agentId) ?? []).map(coreOf), coresMax, (core) => core.busyRatio),
        mounts: top((mounts.get(agentId) ?? []).map(mountOf), devicesMax, (mount) => mount.usedRatio),
        disks: top((disks.get(agentId) ?? []).map(diskOf), devicesMax, (disk) => disk.busyRatio),
        interfaces: top((interfaces.get(agentId) ?? []).map(interfaceOf), devicesMax, (nic) => nic.rxBytesPerS + nic.txBytesPerS),
        cgroups: notableCgroups((cgroups.get(agentId) ?? []).map(cgroupOf)),
        topByCpu: top(running, processesMax, (process) => process.cpuCores),
        topByRss: top(running, processesMax, (process) => process.rssBytes),
      };
      return [agentId, details];
    }),
  );
}

function top<T>(items: T[], limit: number, score: (item: T) => number): T[] {
  return [...items].sort((a, b) => score(b) - score(a)).slice(0, limit);
}

/** Throttled and OOM-killed groups first, then those with the most CPU and memory. */
function notableCgroups(groups: HostCgroup[]): HostCgroup[] {
  const trouble = top(
    groups.filter((group) => group.oomKills > 0 || (group.throttledRatio ?? 0) > throttledRatioMin),
    cgroupsMax,
    (group) => group.oomKills * 10 + (group.throttledRatio ?? 0),
  );
  const byCpu = top(groups, cgroupsByUseMax, (group) => group.cpuCores ?? 0);
  const byMemory = top(groups, cgroupsByUseMax, (group) => group.memUsedBytes ?? 0);
  return [...new Set([...trouble, ...byCpu, ...byMemory])].slice(0, cgroupsMax);
}

function sampleOf(row: QueryRow): HostSample {
  const number = (name: string): number => numberIn(row, name);
  return {
    cpuCount: number("cpu_count"),
    cpuBusyRatio: number("cpu_busy_ratio"),
    cpuUserRatio: number("cpu_user_ratio"),
    cpuSystemRatio: number("cpu_system_ratio"),
    cpuIowaitRatio: number("cpu_iowait_ratio"),
    cpuStealRatio: number("cpu_steal_ratio"),
    load1m: number("load_1m"),
    load5m: number("load_5m"),
    load15m: number("load_15m"),
    processesRunning: number("processes_running"),
    processesBlocked: number("processes_blocked"),
    processesTotal: number("processes_total"),
    contextSwitchesPerS: number("context_switches_per_s"),
    forksPerS: number("forks_per_s"),
    memTotalBytes: number("mem_total_bytes"),
    memAvailableBytes: number("mem_available_bytes"),
    memCachedBytes: number("mem_cached_bytes"),
    memDirtyBytes: number("mem_dirty_bytes"),
    swapTotalBytes: number("swap_total_bytes"),
    swapUsedBytes: number("swap_used_bytes"),
    swapInPerS: number("swap_in_per_s"),
    swapOutPerS: number("swap_out_per_s"),
    psiCpuSomeRatio: numberOrNullIn(row, "psi_cpu_some_ratio"),
    psiMemorySomeRatio: numberOrNullIn(row, "psi_memory_some_ratio"),
    psiMemoryFullRatio: numberOrNullIn(row, "psi_memory_full_ratio"),
    psiIoSomeRatio: numberOrNullIn(row, "psi_io_some_ratio"),
    psiIoFullRatio: numberOrNullIn(row, "psi_io_full_ratio"),
    tcpEstablished: number("tcp_established"),
    tcpOutSegmentsPerS: number("tcp_out_segments_per_s"),
    tcpRetransmitsPerS: number("tcp_retransmits_per_s"),
    tcpResetsSentPerS: number("tcp_resets_sent_per_s"),
    tcpAttemptFailsPerS: number("tcp_attempt_fails_per_s"),
    uptimeS: number("uptime_s"),
  };
}

function coreOf(row: QueryRow): HostCore {
  return {
    core: numberIn(row, "core"),
    busyRatio: numberIn(row, "busy_ratio"),
    iowaitRatio: numberIn(row, "iowait_ratio"),
    stealRatio: numberIn(row, "steal_ratio"),
    softirqRatio: numberIn(row, "softirq_ratio"),
  };
}

function mountOf(row: QueryRow): HostMount {
  const usedBytes = numberIn(row, "used_bytes");
  const availableBytes = numberIn(row, "available_bytes");
  const inodesTotal = numberIn(row, "inodes_total");
  return {
    mount: textIn(row, "mount"),
    device: textIn(row, "device"),
    fsType: textIn(row, "fs_type"),
    sizeBytes: numberIn(row, "size_bytes"),
    usedBytes,
    availableBytes,
    // Space reserved for root counts as neither used nor available, as in df.
    usedRatio: usedBytes + availableBytes > 0 ? usedBytes / (usedBytes + availableBytes) : 0,
    inodesUsedRatio: inodesTotal > 0 ? numberIn(row, "inodes_used") / inodesTotal : null,
    readOnly: booleanIn(row, "read_only"),
  };
}

/** A sample's latency is a mean over its operations, so it is weighted by their rate. */
const diskColumns = `avg(read_bytes_per_s) AS read_bytes_per_s, avg(write_bytes_per_s) AS write_bytes_per_s,
  avg(reads_per_s) AS reads_per_s, avg(writes_per_s) AS writes_per_s,
  sum(read_latency_ms * reads_per_s) / nullif(sum(reads_per_s) FILTER (read_latency_ms IS NOT NULL), 0) AS read_latency_ms,
  sum(write_latency_ms * writes_per_s) / nullif(sum(writes_per_s) FILTER (write_latency_ms IS NOT NULL), 0) AS write_latency_ms,
  max(read_latency_ms) AS max_read_latency_ms, max(write_latency_ms) AS max_write_latency_ms,
  avg(busy_ratio) AS busy_ratio, max(busy_ratio) AS max_busy_ratio`;

function diskOf(row: QueryRow): HostDisk {
  return {
    device: textIn(row, "device"),
    readBytesPerS: numberIn(row, "read_bytes_per_s"),
    writeBytesPerS: numberIn(row, "write_bytes_per_s"),
    readsPerS: numberIn(row, "reads_per_s"),
    writesPerS: numberIn(row, "writes_per_s"),
    readLatencyMs: numberOrNullIn(row, "read_latency_ms"),
    writeLatencyMs: numberOrNullIn(row, "write_latency_ms"),
    maxReadLatencyMs: numberOrNullIn(row, "max_read_latency_ms"),
    maxWriteLatencyMs: numberOrNullIn(row, "max_write_latency_ms"),
    busyRatio: numberIn(row, "busy_ratio"),
    maxBusyRatio: numberIn(row, "max_busy_ratio"),
  };
}

const interfaceColumns = `avg(rx_bytes_per_s) AS rx_bytes_per_s, avg(tx_bytes_per_s) AS tx_bytes_per_s,
  sum(rx_errors) AS rx_errors, sum(tx_errors) AS tx_errors, sum(rx_drops) AS rx_drops, sum(tx_drops) AS tx_drops`;

function interfaceOf(row: QueryRow): HostInterface {
  return {
    interface: textIn(row, "interface"),
    rxBytesPerS: numberIn(row, "rx_bytes_per_s"),
    txBytesPerS: numberIn(row, "tx_bytes_per_s"),
    rxErrors: numberIn(row, "rx_errors"),
    txErrors: numberIn(row, "tx_errors"),
    rxDrops: numberIn(row, "rx_drops"),
    txDrops: numberIn(row, "tx_drops"),
  };
}

const cgroupColumns = `avg(cpu_cores) AS cpu_cores, arg_max(cpu_limit_cores, seq) AS cpu_limit_cores,
  avg(throttled_ratio) AS throttled_ratio, max(throttled_ratio) AS max_throttled_ratio,
  arg_max(mem_used_bytes, seq) AS mem_used_bytes, arg_max(mem_limit_bytes, seq) AS mem_limit_bytes, coalesce(sum(oom_kills), 0) AS oom_kills`;

function cgroupOf(row: QueryRow): HostCgroup {
  return {
    cgroup: textIn(row, "cgroup"),
    cpuCores: numberOrNullIn(row, "cpu_cores"),
    cpuLimitCores: numberOrNullIn(row, "cpu_limit_cores"),
    throttledRatio: numberOrNullIn(row, "throttled_ratio"),
    maxThrottledRatio: numberOrNullIn(row, "max_throttled_ratio"),
    memUsedBytes: numberOrNullIn(row, "mem_used_bytes"),
    memLimitBytes: numberOrNullIn(row, "mem_limit_bytes"),
    oomKills: numberIn(row, "oom_kills"),
  };
}

function processOf(row: QueryRow): HostProcess {
  return {
    pid: numberIn(row, "pid"),
    name: textIn(row, "name"),
    exe: textOrNullIn(row, "exe"),
    userId: numberIn(row, "user_id"),
    state: textIn(row, "state"),
    cpuCores: numberIn(row, "cpu_cores"),
    rssBytes: numberIn(row, "rss_bytes"),
    threads: numberIn(row, "threads"),
    openFiles: numberOrNullIn(row, "open_files"),
  };
}
