import * as z from "zod";
import { runtimeFactsSchema } from "./runtime.ts";

/** Derived from the last contact, with hysteresis. */
export const agentHealthSchema = z.enum(["healthy", "degraded", "unhealthy"]);
export type AgentHealth = z.infer<typeof agentHealthSchema>;

/** Wall time, ISO 8601 in UTC with milliseconds. */
export const isoTimeSchema = z.string();

/** Means of the last pulls that carried rows. Slow: the newest rows arrive late. */
const agentLinkSchema = z.object({ isSlow: z.boolean(), pullMs: z.number(), pullBytes: z.number(), bytesPerSecond: z.number() });

/** One agent as the registry knows it. */
export const agentInfoSchema = z.object({
  agentId: z.string(),
  hostname: z.string(),
  health: agentHealthSchema,
  /** Why it is not healthy; empty when it is. */
  healthReason: z.string(),
  /** Whether its tunnel is up now. */
  connected: z.boolean(),
  version: z.string(),
  os: z.string(),
  kernel: z.string(),
  arch: z.string(),
  machineId: z.string(),
  bootId: z.string(),
  /** Inode of the namespace whose processes it observes; 0: not connected, or not reported. */
  pidNamespace: z.number(),
  /** UUID of the agent's store. */
  epoch: z.string(),
  labels: z.record(z.string(), z.string()),
  capabilities: z.array(z.object({ name: z.string(), available: z.boolean(), reason: z.string() })),
  firstSeenAt: isoTimeSchema,
  /** Null: never. */
  lastContactAt: isoTimeSchema.nullable(),
  lastContactAgoMs: z.number().nullable(),
  /** Age of the newest stored row; null when there is none. */
  pullLagMs: z.number().nullable(),
  /** Null: not connected, or too few pulls yet. */
  link: agentLinkSchema.nullable(),
  /** Why its newest rows are not stored, at the agent or at the colony; null: they are. */
  storeProblem: z.object({ at: z.enum(["agent", "colony"]), reason: z.string() }).nullable(),
  /** Agent's wall clock minus the colony's, at registration; null when unknown. */
  clockDifferenceMs: z.number().nullable(),
  certificateExpiresAt: isoTimeSchema.nullable(),
  revoked: z.boolean(),
  /** Protocol version of its registration; 2 is the first with a runtime context. */
  protocolVersion: z.number(),
  /** Uses a protocol without runtime contexts: its capabilities are unknown and assumed. */
  isLegacy: z.boolean(),
  /** Null: legacy, or not reported. Capabilities that its runtime type rules out are removed. */
  runtime: runtimeFactsSchema.nullable(),
  /** Contradictions in its report. */
  runtimeProblems: z.array(z.string()),
});
export type AgentInfo = z.infer<typeof agentInfoSchema>;

/** An agent in lists. */
export const agentSummarySchema = agentInfoSchema
  .pick({
    agentId: true,
    hostname: true,
    health: true,
    healthReason: true,
    connected: true,
    version: true,
    lastContactAgoMs: true,
    pullLagMs: true,
    link: true,
    revoked: true,
    isLegacy: true,
  })
  .extend({
    component: z.string(),
    /** Empty: not reported. */
    runtimeType: z.string(),
    /** `CRI`, `Shared NS`, `Passive`, `Host NS` or `-`. */
    mode: z.string(),
  });
export type AgentSummary = z.infer<typeof agentSummarySchema>;

/** Output of coral_list_agents. `details` is present with `verbose`. */
export const agentListSchema = z.object({
  total: z.number(),
  agents: z.array(agentSummarySchema.extend({ details: agentInfoSchema.optional() })),
});
export type AgentList = z.infer<typeof agentListSchema>;
