/** What the store knows of one host over some time. Ratios are 0..1; null = the kernel does not say, or nothing was stored. */
export interface HostFactsRow {
  agentId: string;
  sampledAt: string | null;
  latest: HostSampleRow | null;
  totals: HostTotalsRow;
  series: HostSeriesRow;
  cores: HostCoreRow[];
  mounts: HostMountRow[];
  disks: HostDiskRow[];
  interfaces: HostInterfaceRow[];
  cgroups: HostCgroupRow[];
  topByCpu: HostProcessRow[];
  topByRss: HostProcessRow[];
}

export interface HostSampleRow {
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

/** Counts over the asked-for time. */
export interface HostTotalsRow {
  samples: number;
  oomKills: number;
  tcpListenOverflows: number;
  tcpListenDrops: number;
  tcpRetransmitRatio: number | null;
  tcpRetransmits: number;
}

export interface HostMetricRow {
  min: number | null;
  avg: number | null;
  max: number | null;
  /** Averages per bucket; null where there is no row. */
  points: (number | null)[];
}

export const hostMetricNames = [
  "cpuBusyRatio",
  "cpuIowaitRatio",
  "cpuStealRatio",
  "load1m",
  "memUsedRatio",
  "psiCpuSomeRatio",
  "psiMemorySomeRatio",
  "psiIoSomeRatio",
  "diskBusyRatio",
] as const;
export type HostMetricName = (typeof hostMetricNames)[number];

export type SeriesResolution = "raw" | "1m" | "10m";

export interface HostSeriesRow extends Record<HostMetricName, HostMetricRow> {
  startAt: string;
  bucketMs: number;
  resolution: SeriesResolution;
}

export interface HostCoreRow {
  core: number;
  busyRatio: number;
  iowaitRatio: number;
  stealRatio: number;
  softirqRatio: number;
}

export interface HostMountRow {
  mount: string;
  device: string;
  fsType: string;
  sizeBytes: number;
  usedBytes: number;
  availableBytes: number;
  usedRatio: number;
  inodesUsedRatio: number | null;
  readOnly: boolean;
}

export interface HostDiskRow {
  device: string;
  readBytesPerS: number;
  writeBytesPerS: number;
  readsPerS: number;
  writesPerS: number;
  readLatencyMs: number | null;
  writeLatencyMs: number | null;
  maxReadLatencyMs: number | null;
  maxWriteLatencyMs: number | null;
  busyRatio: number;
  maxBusyRatio: number;
}

export interface HostInterfaceRow {
  interface: string;
  rxBytesPerS: number;
  txBytesPerS: number;
  rxErrors: number;
  txErrors: number;
  rxDrops: number;
  txDrops: number;
}

export interface HostCgroupRow {
  cgroup: string;
  cpuCores: number | null;
  cpuLimitCores: number | null;
  throttledRatio: number | null;
  maxThrottledRatio: number | null;
  memUsedBytes: number | null;
  memLimitBytes: number | null;
  oomKills: number;
}

export interface HostProcessRow {
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
