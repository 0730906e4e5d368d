import * as z from "zod";
import type { HostNow } from "../../model/host.ts";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";
import { openIncidentsSchema } from "./incident.ts";
import { runtimeDistributionSchema } from "./runtime.ts";

export const colonyInfoSchema = z.object({
  colonyId: z.string(),
  name: z.string(),
  environment: z.string(),
  version: z.string(),
  pid: z.number(),
  startedAt: isoTimeSchema,
  uptimeMs: z.number(),
  /** Where it listens, ready to print: `https://127.0.0.1:9000`, `unix:/…/colony.sock`. */
  endpoints: z.array(z.string()),
});
export type ColonyInfo = z.infer<typeof colonyInfoSchema>;

export const storeInfoSchema = z.object({
  usedBytes: z.number(),
  /** Null: no limit set. */
  limitBytes: z.number().nullable(),
  /** Why writes fail, such as a full disk; empty while they succeed. */
  writeProblem: z.string(),
  /** Known damage of the store; empty when there is none. */
  damage: z.string(),
  /** Free space of the file system; null when unknown. */
  diskFreeBytes: z.number().nullable(),
});
export type StoreInfo = z.infer<typeof storeInfoSchema>;

export const hostNowSchema = z.object({
  agentId: z.string(),
  sampledAt: isoTimeSchema.nullable(),
  cpuBusyRatio: z.number().nullable(),
  cpuBusyMinuteRatio: z.number().nullable(),
  cpuCount: z.number().nullable(),
  memUsedRatio: z.number().nullable(),
  memTotalBytes: z.number().nullable(),
  load1m: z.number().nullable(),
}) satisfies z.ZodType<HostNow>;

export const statusWarningSchema = z.object({
  kind: z.enum([
    "duplicate-agent",
    "shared-processes",
    "agent-silent",
    "agent-slow",
    "agent-revoked",
    "rows-lost",
    "store-near-limit",
    "store-write",
    "store-damaged",
    "disk-full",
    "clock-difference",
    "no-agents",
    "endpoint-names",
    "passive-sidecar",
    "legacy-agents",
    "runtime-doubtful",
  ]),
  message: z.string(),
  fix: z.string(),
  agentId: z.string().optional(),
});
export type StatusWarning = z.infer<typeof statusWarningSchema>;

/**
 * What to look at first: a critical or degraded service, a saturated host, a host whose requests are not observed (`hooks`), or
 * unobserved time in the last hour (`gap`).
 */
export const attentionSchema = z.object({
  kind: z.enum(["service", "host", "hooks", "gap"]),
  subject: z.string(),
  severity: z.enum(["critical", "degraded"]),
  reason: z.string(),
});
export type Attention = z.infer<typeof attentionSchema>;

/** Output of coral_get_status. */
export const colonyStatusSchema = z.object({
  colony: colonyInfoSchema,
  /** Worst first, as coral_query_summary ranks services. */
  attention: z.array(attentionSchema),
  /** Absent: none is open. */
  incidents: openIncidentsSchema.optional(),
  agents: z.object({
    total: z.number(),
    healthy: z.number(),
    degraded: z.number(),
    unhealthy: z.number(),
    /** How many of these have a slow link; absent: none. */
    slow: z.number().optional(),
    /** Agents with a tunnel now. A stopped agent leaves this count at once, while its health changes only after some silence. */
    connected: z.number(),
  }),
  /** Unhealthy first, then by CPU. */
  hosts: z.array(
    hostNowSchema.extend({
      hostname: z.string(),
      health: agentHealthSchema,
      component: z.string(),
      /** Empty: not reported. */
      runtimeType: z.string(),
      /** `CRI`, `Shared NS`, `Passive`, `Host NS` or `-`. */
      mode: z.string(),
      isLegacy: z.boolean(),
      lastContactAgoMs: z.number().nullable(),
      /** Its link to the colony is slow. */
      isSlow: z.boolean(),
    }),
  ),
  runtimes: runtimeDistributionSchema,
  services: z.object({ total: z.number() }),
  store: storeInfoSchema,
  warnings: z.array(statusWarningSchema),
});
export type ColonyStatus = z.infer<typeof colonyStatusSchema>;
