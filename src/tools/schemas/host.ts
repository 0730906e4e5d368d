import * as z from "zod";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";

/** The newest `host` row. Ratios are 0..1; null = this kernel does not say. */
export const hostSampleSchema = z.object({
  cpuCount: z.number(),
  cpuBusyRatio: z.number(),
  cpuUserRatio: z.number(),
  cpuSystemRatio: z.number(),
  cpuIowaitRatio: z.number(),
  cpuStealRatio: z.number(),
  load1m: z.number(),
  load5m: z.number(),
  load15m: z.number(),
  processesRunning: z.number(),
  processesBlocked: z.number(),
  processesTotal: z.number(),
  contextSwitchesPerS: z.number(),
  forksPerS: z.number(),
  memTotalBytes: z.number(),
  memAvailableBytes: z.number(),
  memCachedBytes: z.number(),
  memDirtyBytes: z.number(),
  swapTotalBytes: z.number(),
  swapUsedBytes: z.number(),
  swapInPerS: z.number(),
  swapOutPerS: z.number(),
  psiCpuSomeRatio: z.number().nullable(),
  psiMemorySomeRatio: z.number().nullable(),
  psiMemoryFullRatio: z.number().nullable(),
  psiIoSomeRatio: z.number().nullable(),
  psiIoFullRatio: z.number().nullable(),
  tcpEstablished: z.number(),
  tcpOutSegmentsPerS: z.number(),
  tcpRetransmitsPerS: z.number(),
  tcpResetsSentPerS: z.number(),
  tcpAttemptFailsPerS: z.number(),
  uptimeS: z.number(),
});

/** One metric over the asked-for time. Null when nothing was stored or the kernel does not say. */
export const hostMetricSchema = z.object({
  min: z.number().nullable(),
  avg: z.number().nullable(),
  max: z.number().nullable(),
  /** Averages per bucket from `series.startAt` on, `series.bucketMs` apart; null where there is no row. */
  points: z.array(z.number().nullable()),
});
export type HostMetric = z.infer<typeof hostMetricSchema>;

export const hostSeriesSchema = z.object({
  startAt: isoTimeSchema,
  bucketMs: z.number(),
  /** `raw` samples, or the one- or ten-minute roll-up that they were read from. */
  resolution: z.enum(["raw", "1m", "10m"]),
  cpuBusyRatio: hostMetricSchema,
  cpuIowaitRatio: hostMetricSchema,
  cpuStealRatio: hostMetricSchema,
  load1m: hostMetricSchema,
  /** 1 - available / total. */
  memUsedRatio: hostMetricSchema,
  psiCpuSomeRatio: hostMetricSchema,
  psiMemorySomeRatio: hostMetricSchema,
  psiIoSomeRatio: hostMetricSchema,
  /** The busiest device of each bucket. */
  diskBusyRatio: hostMetricSchema,
});

/** Counts over the asked-for time. */
export const hostTotalsSchema = z.object({
  samples: z.number(),
  oomKills: z.number(),
  tcpListenOverflows: z.number(),
  tcpListenDrops: z.number(),
  /** Retransmitted / sent segments; null when nothing was sent. */
  tcpRetransmitRatio: z.number().nullable(),
  tcpRetransmits: z.number(),
});

export const hostCoreSchema = z.object({
  core: z.number(),
  busyRatio: z.number(),
  iowaitRatio: z.number(),
  stealRatio: z.number(),
  softirqRatio: z.number(),
});

export const hostMountSchema = z.object({
  mount: z.string(),
  device: z.string(),
  fsType: z.string(),
  sizeBytes: z.number(),
  usedBytes: z.number(),
  availableBytes: z.number(),
  /** Of what users may fill: used / (used + available). */
  usedRatio: z.number(),
  inodesUsedRatio: z.number().nullable(),
  readOnly: z.boolean(),
});

/** Averages over the asked-for time, with the worst sample where it is named `max`. */
export const hostDiskSchema = z.object({
  device: z.string(),
  readBytesPerS: z.number(),
  writeBytesPerS: z.number(),
  readsPerS: z.number(),
  writesPerS: z.number(),
  /** Mean over the operations of the time; null when there were none. */
  readLatencyMs: z.number().nullable(),
  writeLatencyMs: z.number().nullable(),
  maxReadLatencyMs: z.number().nullable(),
  maxWriteLatencyMs: z.number().nullable(),
  busyRatio: z.number(),
  maxBusyRatio: z.number(),
});

/** Rates are averages, errors and drops are counts over the asked-for time. */
export const hostInterfaceSchema = z.object({
  interface: z.string(),
  rxBytesPerS: z.number(),
  txBytesPerS: z.number(),
  rxErrors: z.number(),
  txErrors: z.number(),
  rxDrops: z.number(),
  txDrops: z.number(),
});

/** A control group that uses the most CPU or memory, is throttled, or had an OOM kill. */
export const hostCgroupSchema = z.object({
  cgroup: z.string(),
  cpuCores: z.number().nullable(),
  cpuLimitCores: z.number().nullable(),
  throttledRatio: z.number().nullable(),
  maxThrottledRatio: z.number().nullable(),
  memUsedBytes: z.number().nullable(),
  memLimitBytes: z.number().nullable(),
  oomKills: z.number(),
});

export const hostProcessSchema = z.object({
  pid: z.number(),
  name: z.string(),
  exe: z.string().nullable(),
  userId: z.number(),
  state: z.string(),
  cpuCores: z.number(),
  rssBytes: z.number(),
  threads: z.number(),
  openFiles: z.number().nullable(),
});

/** What the store knows of one host; coral_query_host adds the agent's identity and the findings. */
export const hostFactsSchema = z.object({
  agentId: z.string(),
  /** Of the newest sample; null when the store has none of this agent. */
  sampledAt: isoTimeSchema.nullable(),
  latest: hostSampleSchema.nullable(),
  totals: hostTotalsSchema,
  series: hostSeriesSchema,
  /** Busiest first. */
  cores: z.array(hostCoreSchema),
  mounts: z.array(hostMountSchema),
  disks: z.array(hostDiskSchema),
  interfaces: z.array(hostInterfaceSchema),
  cgroups: z.array(hostCgroupSchema),
  topByCpu: z.array(hostProcessSchema),
  topByRss: z.array(hostProcessSchema),
});
export type HostFacts = z.infer<typeof hostFactsSchema>;

/** A rule that fired: the number, the threshold and what it means. */
export const hostFindingSchema = z.object({
  rule: z.string(),
  severity: z.enum(["critical", "warning", "info"]),
  /** Which mount, device, control group …; empty for the host as a whole. */
  subject: z.string(),
  message: z.string(),
  value: z.number(),
  threshold: z.number(),
  unit: z.enum(["ratio", "ms", "count"]),
});
export type HostFinding = z.infer<typeof hostFindingSchema>;

export const hostReportSchema = hostFactsSchema.extend({
  hostname: z.string(),
  health: agentHealthSchema,
  lastContactAgoMs: z.number().nullable(),
  /** Worst first. */
  findings: z.array(hostFindingSchema),
});
export type HostReport = z.infer<typeof hostReportSchema>;

/** Output of coral_query_host. */
export const hostQueryResultSchema = z.object({
  sinceMs: z.number(),
  /** How many agents matched; `hosts` may hold fewer. */
  matched: z.number(),
  hosts: z.array(hostReportSchema),
});
export type HostQueryResult = z.infer<typeof hostQueryResultSchema>;
