/** One host over time, with what is wrong with it. */

import * as z from "zod";
import {
  type HostCgroup,
  type HostCore,
  type HostDisk,
  type HostFacts,
  type HostInterface,
  type HostMetric,
  type HostMount,
  type HostProcess,
  type HostSample,
  type HostSeries,
  type HostTotals,
  seriesResolutions,
} from "../../model/host.ts";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";

const hostSampleSchema = z.object({
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
}) satisfies z.ZodType<HostSample>;

const hostMetricSchema = z.object({
  min: z.number().nullable(),
  avg: z.number().nullable(),
  max: z.number().nullable(),
  points: z.array(z.number().nullable()),
}) satisfies z.ZodType<HostMetric>;

const hostSeriesSchema = z.object({
  startAt: isoTimeSchema,
  bucketMs: z.number(),
  resolution: z.enum(seriesResolutions),
  cpuBusyRatio: hostMetricSchema,
  cpuIowaitRatio: hostMetricSchema,
  cpuStealRatio: hostMetricSchema,
  load1m: hostMetricSchema,
  memUsedRatio: hostMetricSchema,
  psiCpuSomeRatio: hostMetricSchema,
  psiMemorySomeRatio: hostMetricSchema,
  psiIoSomeRatio: hostMetricSchema,
  diskBusyRatio: hostMetricSchema,
}) satisfies z.ZodType<HostSeries>;

const hostTotalsSchema = z.object({
  samples: z.number(),
  oomKills: z.number(),
  tcpListenOverflows: z.number(),
  tcpListenDrops: z.number(),
  tcpRetransmitRatio: z.number().nullable(),
  tcpRetransmits: z.number(),
}) satisfies z.ZodType<HostTotals>;

const hostCoreSchema = z.object({
  core: z.number(),
  busyRatio: z.number(),
  iowaitRatio: z.number(),
  stealRatio: z.number(),
  softirqRatio: z.number(),
}) satisfies z.ZodType<HostCore>;

const hostMountSchema = z.object({
  mount: z.string(),
  device: z.string(),
  fsType: z.string(),
  sizeBytes: z.number(),
  usedBytes: z.number(),
  availableBytes: z.number(),
  usedRatio: z.number(),
  inodesUsedRatio: z.number().nullable(),
  readOnly: z.boolean(),
}) satisfies z.ZodType<HostMount>;

const hostDiskSchema = z.object({
  device: z.string(),
  readBytesPerS: z.number(),
  writeBytesPerS: z.number(),
  readsPerS: z.number(),
  writesPerS: z.number(),
  readLatencyMs: z.number().nullable(),
  writeLatencyMs: z.number().nullable(),
  maxReadLatencyMs: z.number().nullable(),
  maxWriteLatencyMs: z.number().nullable(),
  busyRatio: z.number(),
  maxBusyRatio: z.number(),
}) satisfies z.ZodType<HostDisk>;

const hostInterfaceSchema = z.object({
  interface: z.string(),
  rxBytesPerS: z.number(),
  txBytesPerS: z.number(),
  rxErrors: z.number(),
  txErrors: z.number(),
  rxDrops: z.number(),
  txDrops: z.number(),
}) satisfies z.ZodType<HostInterface>;

const hostCgroupSchema = z.object({
  cgroup: z.string(),
  cpuCores: z.number().nullable(),
  cpuLimitCores: z.number().nullable(),
  throttledRatio: z.number().nullable(),
  maxThrottledRatio: z.number().nullable(),
  memUsedBytes: z.number().nullable(),
  memLimitBytes: z.number().nullable(),
  oomKills: z.number(),
}) satisfies z.ZodType<HostCgroup>;

const hostProcessSchema = z.object({
  pid: z.number(),
  name: z.string(),
  exe: z.string().nullable(),
  userId: z.number(),
  state: z.string(),
  cpuCores: z.number(),
  rssBytes: z.number(),
  threads: z.number(),
  openFiles: z.number().nullable(),
}) satisfies z.ZodType<HostProcess>;

const hostFactsSchema = z.object({
  agentId: z.string(),
  sampledAt: isoTimeSchema.nullable(),
  latest: hostSampleSchema.nullable(),
  totals: hostTotalsSchema,
  series: hostSeriesSchema,
  cores: z.array(hostCoreSchema),
  mounts: z.array(hostMountSchema),
  disks: z.array(hostDiskSchema),
  interfaces: z.array(hostInterfaceSchema),
  cgroups: z.array(hostCgroupSchema),
  topByCpu: z.array(hostProcessSchema),
  topByRss: z.array(hostProcessSchema),
}) satisfies z.ZodType<HostFacts>;

/** A rule that fired: value, threshold and meaning. */
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
  /** Number of matching agents; `hosts` may hold fewer. */
  matched: z.number(),
  hosts: z.array(hostReportSchema),
});
export type HostQueryResult = z.infer<typeof hostQueryResultSchema>;
