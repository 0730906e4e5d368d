/** Realistic host rows from a seed: the same number gives the same row, so that a reader can check every one. */

import {
  type Columns,
  host,
  hostCgroup,
  hostCpu,
  hostDisk,
  hostInterface,
  hostMount,
  hostProcess,
  type RowOf,
  type SampleTime,
  type Signal,
  serviceInstance,
} from "../../src/store/signals/index.ts";

export type HostProcessRow = RowOf<(typeof hostProcess)["columns"]>;

/** Rows of one signal among rows of others; `signalRows` has checked that they fit. */
export interface SignalRows {
  signal: Signal;
  rows: readonly SampleTime[];
}

function signalRows<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): SignalRows {
  return { signal: signal as unknown as Signal, rows };
}

const mebibyte = 1024 ** 2;
const programs = ["postgres", "node", "nginx", "java", "containerd-shim", "kubelet", "systemd-journald", "python3", "redis-server", "sshd"];
const states = ["S", "S", "S", "R", "D", "I"];

/** 0 to 1, different for every pair of numbers. */
function noise(a: number, b: number): number {
  let mixed = (Math.imul(a, 0x9e3779b1) ^ Math.imul(b + 1, 0x85ebca6b)) >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad) >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97) >>> 0;
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
}

const pick = <T>(values: readonly T[], share: number): T => values[Math.floor(share * values.length)] as T;

/** The same `seed` and `index` give the same row. */
export function processRow(seed: number, index: number, time: SampleTime): HostProcessRow {
  const name = pick(programs, noise(seed, index));
  const pid = 300 + Math.floor(noise(index, seed) * 60_000);
  return {
    ...time,
    pid,
    start_ticks: 1_000 + pid * 17,
    name,
    exe: index % 9 === 0 ? null : `/usr/lib/${name}/bin/${name}`,
    user_id: index % 3 === 0 ? 0 : 1_000 + (index % 5),
    cgroup: index % 11 === 0 ? null : `/system.slice/${name}.service`,
    state: pick(states, noise(seed + 1, index)),
    cpu_cores: noise(seed + 2, index),
    rss_bytes: Math.floor(noise(seed + 3, index) * 900 * mebibyte),
    threads: 1 + (index % 60),
    open_files: index % 7 === 0 ? null : 3 + (index % 400),
    major_faults_per_s: noise(seed + 4, index) < 0.9 ? 0 : noise(seed + 5, index) * 4,
  };
}

/** A medium-sized server. The counts and lists below determine the rows per sample. */
const cores = 8;
const mounts = ["/", "/boot", "/var/lib/containers", "/home"];
const disks = ["nvme0n1", "nvme1n1"];
const interfaces = ["lo", "eth0", "docker0"];
const cgroupCount = 30;
const processCount = 24;
const instanceCount = 10;
/** One in this many samples includes services: every 30 s against every 15 s. */
const samplesPerScan = 2;

/** Sample `index` of one host: 72 rows, and ten more in every second. */
export function hostSample(seed: number, index: number, time: SampleTime): SignalRows[] {
  const at = (salt: number): number => noise(seed * 1_000 + salt, index);
  const many = <T>(count: number, make: (number: number) => T): T[] => Array.from({ length: count }, (_, number) => make(number));
  const rows = [
    signalRows(host, [hostRow(at, index, time)]),
    signalRows(
      hostCpu,
      many(cores, (core) => cpuRow(at, core, time)),
    ),
    signalRows(
      hostMount,
      mounts.map((mount, number) => mountRow(at, mount, number, time)),
    ),
    signalRows(
      hostDisk,
      disks.map((device, number) => diskRow(at, device, number, time)),
    ),
    signalRows(
      hostInterface,
      interfaces.map((name, number) => interfaceRow(at, name, number, time)),
    ),
    signalRows(
      hostCgroup,
      many(cgroupCount, (number) => cgroupRow(at, number, time)),
    ),
    signalRows(
      hostProcess,
      many(processCount, (number) => processRow(seed, index * processCount + number, time)),
    ),
  ];
  if (index % samplesPerScan === 0) {
    rows.push(
      signalRows(
        serviceInstance,
        many(instanceCount, (number) => instanceRow(number, time)),
      ),
    );
  }
  return rows;
}

type At = (salt: number) => number;

function hostRow(at: At, index: number, time: SampleTime): RowOf<(typeof host)["columns"]> {
  return {
    ...time,
    interval_ms: 15_000,
    cpu_count: cores,
    cpu_busy_ratio: at(1),
    cpu_user_ratio: at(2) / 2,
    cpu_system_ratio: at(3) / 4,
    cpu_iowait_ratio: at(4) / 10,
    cpu_steal_ratio: 0,
    load_1m: at(5) * 4,
    load_5m: at(6) * 4,
    load_15m: at(7) * 4,
    processes_running: Math.floor(at(8) * 6),
    processes_blocked: 0,
    processes_total: 240 + Math.floor(at(9) * 40),
    context_switches_per_s: at(10) * 9_000,
    forks_per_s: at(11) * 12,
    mem_total_bytes: 32_768 * mebibyte,
    mem_available_bytes: Math.floor(at(12) * 30_000) * mebibyte,
    mem_cached_bytes: Math.floor(at(13) * 8_000) * mebibyte,
    mem_dirty_bytes: Math.floor(at(14) * 4 * mebibyte),
    swap_total_bytes: 0,
    swap_used_bytes: 0,
    swap_in_per_s: 0,
    swap_out_per_s: 0,
    oom_kills: 0,
    psi_cpu_some_ratio: at(15) / 20,
    psi_memory_some_ratio: 0,
    psi_memory_full_ratio: 0,
    psi_io_some_ratio: at(16) / 50,
    psi_io_full_ratio: null,
    tcp_established: 40 + Math.floor(at(17) * 200),
    tcp_out_segments_per_s: at(18) * 3_000,
    tcp_retransmits_per_s: at(19),
    tcp_listen_overflows: 0,
    tcp_listen_drops: 0,
    tcp_resets_sent_per_s: at(20),
    tcp_attempt_fails_per_s: 0,
    uptime_s: 86_400 + index * 15,
  };
}

function cpuRow(at: At, core: number, time: SampleTime): RowOf<(typeof hostCpu)["columns"]> {
  const busy = at(30 + core);
  return {
    ...time,
    core,
    busy_ratio: busy,
    user_ratio: busy * 0.7,
    system_ratio: busy * 0.2,
    iowait_ratio: busy * 0.05,
    steal_ratio: 0,
    softirq_ratio: busy * 0.02,
  };
}

function mountRow(at: At, mount: string, number: number, time: SampleTime): RowOf<(typeof hostMount)["columns"]> {
  const used = Math.floor(at(50 + number) * 200_000) * mebibyte;
  return {
    ...time,
    mount,
    device: `/dev/nvme0n1p${number + 1}`,
    fs_type: "ext4",
    size_bytes: 240_000 * mebibyte,
    used_bytes: used,
    available_bytes: 240_000 * mebibyte - used,
    inodes_total: 15_000_000,
    inodes_used: 400_000 + number,
    read_only: false,
  };
}

function diskRow(at: At, device: string, number: number, time: SampleTime): RowOf<(typeof hostDisk)["columns"]> {
  return {
    ...time,
    device,
    read_bytes_per_s: at(60 + number) * 4 * mebibyte,
    write_bytes_per_s: at(62 + number) * 9 * mebibyte,
    reads_per_s: at(64 + number) * 90,
    writes_per_s: at(66 + number) * 200,
    read_latency_ms: number === 0 ? at(68) * 3 : null,
    write_latency_ms: at(69 + number) * 5,
    busy_ratio: at(71 + number) / 3,
    queue_length: at(73 + number),
  };
}

function interfaceRow(at: At, name: string, number: number, time: SampleTime): RowOf<(typeof hostInterface)["columns"]> {
  return {
    ...time,
    interface: name,
    rx_bytes_per_s: at(80 + number) * 2 * mebibyte,
    tx_bytes_per_s: at(83 + number) * 2 * mebibyte,
    rx_packets_per_s: at(86 + number) * 2_000,
    tx_packets_per_s: at(89 + number) * 2_000,
    rx_errors: 0,
    tx_errors: 0,
    rx_drops: Math.floor(at(92 + number) * 2),
    tx_drops: 0,
  };
}

function cgroupRow(at: At, number: number, time: SampleTime): RowOf<(typeof hostCgroup)["columns"]> {
  const isLimited = number % 4 === 0;
  return {
    ...time,
    cgroup: `/system.slice/${pick(programs, (number % programs.length) / programs.length)}-${number}.service`,
    cpu_cores: at(100 + number) / 4,
    cpu_limit_cores: isLimited ? 2 : null,
    throttled_ratio: isLimited ? at(140 + number) / 10 : null,
    mem_used_bytes: Math.floor(at(180 + number) * 600) * mebibyte,
    mem_limit_bytes: isLimited ? 1_024 * mebibyte : null,
    oom_kills: 0,
    pids: 1 + (number % 20),
  };
}

function instanceRow(number: number, time: SampleTime): RowOf<(typeof serviceInstance)["columns"]> {
  const name = pick(programs, number / instanceCount);
  return {
    ...time,
    service: name,
    name: null,
    origin: null,
    qualifiers: null,
    aliases: null,
    named_by: "systemd-unit",
    confidence: 0.85,
    method: "listening_socket",
    protocol: "tcp",
    address: "0.0.0.0",
    port: 8_000 + number,
    pid: 900 + number,
    start_ticks: 5_000 + number,
    started: time.at - 3_600_000_000,
    exe: `/usr/lib/${name}/bin/${name}`,
    build: "0123456789abcdef0123456789abcdef01234567",
    build_kind: "build-id",
    command_line: `/usr/lib/${name}/bin/${name} --config /etc/${name}/${name}.yaml`,
    environment: null,
    user_id: 1_000,
    user_name: name,
    cgroup: `/system.slice/${name}.service`,
    container_id: null,
    container_name: null,
    unit: `${name}.service`,
    netns: 4_026_531_840,
    addresses: '["10.0.0.1"]',
    managed: false,
    health: null,
    health_detail: null,
  };
}
