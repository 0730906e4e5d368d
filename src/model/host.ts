/** What the store knows about hosts. Ratios are 0..1. Null: the kernel does not report it, or nothing was stored. */

export interface HostRequest {
  agentIds: readonly string[];
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  /** Upper bound of points in each series; 0 = none. */
  maxPoints: number;
}

/** One host over the window. */
export interface HostFacts {
  agentId: string;
  /** Time of the newest sample; null if this agent has none. */
  sampledAt: string | null;
  latest: HostSample | null;
  totals: HostTotals;
  series: HostSeries;
  /** Busiest first. */
  cores: HostCore[];
  mounts: HostMount[];
  disks: HostDisk[];
  interfaces: HostInterface[];
  cgroups: HostCgroup[];
  topByCpu: HostProcess[];
  topByRss: HostProcess[];
}

/** The newest `host` row. */
export interface HostSample {
  cpuCount: number;
  cpuBusyRatio: number;
  cpuUserRatio: number;
  cpuSystemRatio: number;
  cpuIowaitRatio: number;
  cpuStealRatio: number;
  load1m: number;
  load5m: number;
  load15m: number;
  processesRunning: number;
  processesBlocked: number;
  processesTotal: number;
  contextSwitchesPerS: number;
  forksPerS: number;
  memTotalBytes: number;
  memAvailableBytes: number;
  memCachedBytes: number;
  memDirtyBytes: number;
  swapTotalBytes: number;
  swapUsedBytes: number;
  swapInPerS: number;
  swapOutPerS: number;
  psiCpuSomeRatio: number | null;
  psiMemorySomeRatio: number | null;
  psiMemoryFullRatio: number | null;
  psiIoSomeRatio: number | null;
  psiIoFullRatio: number | null;
  tcpEstablished: number;
  tcpOutSegmentsPerS: number;
  tcpRetransmitsPerS: number;
  tcpResetsSentPerS: number;
  tcpAttemptFailsPerS: number;
  uptimeS: number;
}

/** Counts over the window. */
export interface HostTotals {
  samples: number;
  oomKills: number;
  tcpListenOverflows: number;
  tcpListenDrops: number;
  /** Retransmitted / sent segments; null when nothing was sent. */
  tcpRetransmitRatio: number | null;
  tcpRetransmits: number;
}

/** One metric over the window. */
export interface HostMetric {
  min: number | null;
  avg: number | null;
  max: number | null;
  /** Averages per bucket of the series; null without rows. */
  points: (number | null)[];
}

export const hostMetricNames = [
  "cpuBusyRatio",
  "cpuIowaitRatio",
  "cpuStealRatio",
  "load1m",
  /** 1 - available / total. */
  "memUsedRatio",
  "psiCpuSomeRatio",
  "psiMemorySomeRatio",
  "psiIoSomeRatio",
  /** The busiest device of each bucket. */
  "diskBusyRatio",
] as const;
export type HostMetricName = (typeof hostMetricNames)[number];

/** Raw samples, or the one- or ten-minute roll-up. */
export const seriesResolutions = ["raw", "1m", "10m"] as const;
export type SeriesResolution = (typeof seriesResolutions)[number];

export interface HostSeries extends Record<HostMetricName, HostMetric> {
  startAt: string;
  bucketMs: number;
  resolution: SeriesResolution;
}

export interface HostCore {
  core: number;
  busyRatio: number;
  iowaitRatio: number;
  stealRatio: number;
  softirqRatio: number;
}

export interface HostMount {
  mount: string;
  device: string;
  fsType: string;
  sizeBytes: number;
  usedBytes: number;
  availableBytes: number;
  /** Share of the space for unprivileged users: used / (used + available). */
  usedRatio: number;
  inodesUsedRatio: number | null;
  readOnly: boolean;
}

/** Averages over the window; the worst samples are in the `max…` fields. */
export interface HostDisk {
  device: string;
  readBytesPerS: number;
  writeBytesPerS: number;
  readsPerS: number;
  writesPerS: number;
  /** Mean over the operations; null without operations. */
  readLatencyMs: number | null;
  writeLatencyMs: number | null;
  maxReadLatencyMs: number | null;
  maxWriteLatencyMs: number | null;
  busyRatio: number;
  maxBusyRatio: number;
}

/** Rates are averages; errors and drops are counts over the window. */
export interface HostInterface {
  interface: string;
  rxBytesPerS: number;
  txBytesPerS: number;
  rxErrors: number;
  txErrors: number;
  rxDrops: number;
  txDrops: number;
}

/** A control group that is among the largest CPU or memory users, is throttled, or had an OOM kill. */
export interface HostCgroup {
  cgroup: string;
  cpuCores: number | null;
  cpuLimitCores: number | null;
  throttledRatio: number | null;
  maxThrottledRatio: number | null;
  memUsedBytes: number | null;
  memLimitBytes: number | null;
  oomKills: number;
}

export interface HostProcess {
  pid: number;
  name: string;
  exe: string | null;
  userId: number;
  state: string;
  cpuCores: number;
  rssBytes: number;
  threads: number;
  openFiles: number | null;
}

/** The newest values of one host. */
export interface HostNow {
  agentId: string;
  /** Null before its first sample; then everything else is null too. */
  sampledAt: string | null;
  cpuBusyRatio: number | null;
  /** Of the last minute; null while there are fewer than three samples of it, as right after the agent's own start. */
  cpuBusyMinuteRatio: number | null;
  cpuCount: number | null;
  memUsedRatio: number | null;
  memTotalBytes: number | null;
  load1m: number | null;
}
