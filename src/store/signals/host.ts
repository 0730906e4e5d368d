/**
 * Host signals: the machine as a whole, sampled every 15 s. Ratios are 0..1 of the sampling interval; rates are per second. Null means that
 * the kernel or file system does not report the value, never zero.
 */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;
const retention = (weight: number) => ({
  agent: { maxAgeMs: 24 * hourMs, weight },
  colony: { maxAgeMs: 48 * hourMs, weight },
});

/** One row per sample. */
export const host = defineSignal({
  name: "host",
  description: "CPU, memory, load, pressure and TCP health of a host, one row per agent every 15 s",
  columns: {
    interval_ms: "int",
    cpu_count: "int",
    cpu_busy_ratio: "float",
    cpu_user_ratio: "float",
    cpu_system_ratio: "float",
    cpu_iowait_ratio: "float",
    cpu_steal_ratio: "float",
    load_1m: "float",
    load_5m: "float",
    load_15m: "float",
    processes_running: "int",
    processes_blocked: "int",
    processes_total: "int",
    context_switches_per_s: "float",
    forks_per_s: "float",
    mem_total_bytes: "int",
    mem_available_bytes: "int",
    mem_cached_bytes: "int",
    mem_dirty_bytes: "int",
    swap_total_bytes: "int",
    swap_used_bytes: "int",
    /** In pages, as the kernel counts them. */
    swap_in_per_s: "float",
    swap_out_per_s: "float",
    oom_kills: "int",
    psi_cpu_some_ratio: "float?",
    psi_memory_some_ratio: "float?",
    psi_memory_full_ratio: "float?",
    psi_io_some_ratio: "float?",
    psi_io_full_ratio: "float?",
    tcp_established: "int",
    tcp_out_segments_per_s: "float",
    tcp_retransmits_per_s: "float",
    tcp_listen_overflows: "int",
    tcp_listen_drops: "int",
    tcp_resets_sent_per_s: "float",
    tcp_attempt_fails_per_s: "float",
    uptime_s: "int",
  },
  retention: retention(2),
  rollup: {
    keys: [],
    measures: {
      cpu_busy_ratio: ["avg", "max"],
      cpu_iowait_ratio: ["avg", "max"],
      cpu_steal_ratio: ["avg", "max"],
      load_1m: ["avg", "max"],
      mem_available_bytes: ["avg", "min"],
      mem_total_bytes: ["max"],
      swap_used_bytes: ["max"],
      oom_kills: ["sum"],
      psi_cpu_some_ratio: ["avg", "max"],
      psi_memory_some_ratio: ["avg", "max"],
      psi_io_some_ratio: ["avg", "max"],
      tcp_established: ["avg", "max"],
      tcp_retransmits_per_s: ["avg", "max"],
      tcp_listen_overflows: ["sum"],
      tcp_listen_drops: ["sum"],
    },
  },
});

export const hostCpu = defineSignal({
  name: "host_cpu",
  description: "One row per CPU core and sample",
  columns: {
    core: "int",
    busy_ratio: "float",
    user_ratio: "float",
    system_ratio: "float",
    iowait_ratio: "float",
    steal_ratio: "float",
    softirq_ratio: "float",
  },
  retention: retention(1),
  rollup: { keys: ["core"], measures: { busy_ratio: ["avg", "max"], softirq_ratio: ["max"] } },
});

export const hostMount = defineSignal({
  name: "host_mount",
  description: "Space and inodes of one mounted file system",
  columns: {
    mount: "text",
    device: "text",
    fs_type: "text",
    size_bytes: "int",
    used_bytes: "int",
    available_bytes: "int",
    inodes_total: "int",
    inodes_used: "int",
    read_only: "bool",
  },
  retention: retention(1),
  rollup: {
    keys: ["mount"],
    measures: { size_bytes: ["last"], used_bytes: ["last", "max"], available_bytes: ["min"], inodes_used: ["max"] },
  },
});

export const hostDisk = defineSignal({
  name: "host_disk",
  description: "Traffic and latency of one block device",
  columns: {
    device: "text",
    read_bytes_per_s: "float",
    write_bytes_per_s: "float",
    reads_per_s: "float",
    writes_per_s: "float",
    read_latency_ms: "float?",
    write_latency_ms: "float?",
    busy_ratio: "float",
    queue_length: "float",
  },
  retention: retention(1),
  rollup: {
    keys: ["device"],
    measures: {
      read_bytes_per_s: ["avg", "max"],
      write_bytes_per_s: ["avg", "max"],
      read_latency_ms: ["max"],
      write_latency_ms: ["max"],
      busy_ratio: ["avg", "max"],
    },
  },
});

export const hostInterface = defineSignal({
  name: "host_interface",
  description: "Traffic, errors and drops of one network interface",
  columns: {
    interface: "text",
    rx_bytes_per_s: "float",
    tx_bytes_per_s: "float",
    rx_packets_per_s: "float",
    tx_packets_per_s: "float",
    rx_errors: "int",
    tx_errors: "int",
    rx_drops: "int",
    tx_drops: "int",
  },
  retention: retention(1),
  rollup: {
    keys: ["interface"],
    measures: {
      rx_bytes_per_s: ["avg", "max"],
      tx_bytes_per_s: ["avg", "max"],
      rx_errors: ["sum"],
      tx_errors: ["sum"],
      rx_drops: ["sum"],
      tx_drops: ["sum"],
    },
  },
});

export const hostCgroup = defineSignal({
  name: "host_cgroup",
  description: "CPU, throttling and memory of one control group (systemd unit, container, slice)",
  columns: {
    cgroup: "text",
    cpu_cores: "float?",
    cpu_limit_cores: "float?",
    throttled_ratio: "float?",
    mem_used_bytes: "int?",
    mem_limit_bytes: "int?",
    oom_kills: "int?",
    pids: "int?",
  },
  retention: retention(2),
  rollup: {
    keys: ["cgroup"],
    measures: { cpu_cores: ["avg", "max"], throttled_ratio: ["avg", "max"], mem_used_bytes: ["max"], mem_limit_bytes: ["last"] },
  },
});

export const hostProcess = defineSignal({
  name: "host_process",
  description: "The top processes of a host by CPU, resident memory, threads and open files",
  columns: {
    pid: "int",
    /** Start time in clock ticks since boot; identifies a process together with pid. */
    start_ticks: "int",
    name: "text",
    exe: "text?",
    user_id: "int",
    cgroup: "text?",
    state: "text",
    cpu_cores: "float",
    rss_bytes: "int",
    threads: "int",
    /** Null when the agent lacks permission to read it. */
    open_files: "int?",
    major_faults_per_s: "float",
  },
  retention: retention(3),
});
