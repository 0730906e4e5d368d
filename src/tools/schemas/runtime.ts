import * as z from "zod";
import type { CapabilityFact, RuntimeFacts } from "../../model/runtime-facts.ts";

export const capabilityFactSchema = z.object({
  name: z.string(),
  available: z.boolean(),
  reason: z.string(),
  fix: z.string(),
}) satisfies z.ZodType<CapabilityFact>;

export const runtimeFactsSchema = z.object({
  platform: z.object({ os: z.string(), arch: z.string(), osVersion: z.string(), kernel: z.string() }),
  runtimeType: z.string(),
  sidecarMode: z.string(),
  containerRuntime: z.object({ socketPath: z.string(), type: z.string(), version: z.string() }).nullable(),
  capabilities: z.array(capabilityFactSchema),
  visibility: z.object({
    allPids: z.boolean(),
    allContainers: z.boolean(),
    podScope: z.boolean(),
    containers: z.array(z.string()),
    namespace: z.string(),
    moreContainers: z.number(),
  }),
  detectedAt: z.string(),
  version: z.string(),
  evidence: z.array(z.string()),
  isOverridden: z.boolean(),
}) satisfies z.ZodType<RuntimeFacts>;

/** Phase of the policy for legacy agents. */
export const legacyPhaseSchema = z.enum(["off", "quiet", "grace", "transition", "enforced"]);
export type LegacyPhase = z.infer<typeof legacyPhaseSchema>;

export const runtimeChangeSchema = z.object({
  at: z.string(),
  runtimeType: z.string(),
  sidecarMode: z.string(),
  containerRuntime: z.string(),
  /** registration, upgrade, redeployment, refresh, config, requested, capabilities */
  reason: z.string(),
  /** One sentence. */
  changes: z.string(),
});

/** Runtime of one agent, and where the information comes from. */
export const runtimeContextFactsSchema = z.object({
  /** Null: not reported. */
  runtime: runtimeFactsSchema.nullable(),
  problems: z.array(z.string()),
  /** `agent`: read just now; `registry`: as last reported. */
  source: z.enum(["agent", "registry"]),
  /** Why the agent itself was not queried; empty when it was. */
  note: z.string(),
  /** Newest first. */
  history: z.array(runtimeChangeSchema),
});
export type RuntimeContextFacts = z.infer<typeof runtimeContextFactsSchema>;

/** Output of coral_get_runtime_context. */
export const runtimeContextListSchema = z.object({
  total: z.number(),
  agents: z.array(
    runtimeContextFactsSchema.extend({ agentId: z.string(), hostname: z.string(), version: z.string(), isLegacy: z.boolean() }),
  ),
});
export type RuntimeContextList = z.infer<typeof runtimeContextListSchema>;

const countSchema = z.object({ name: z.string(), agents: z.number() });

/** Agents by operating system and runtime; part of the colony's status. */
export const runtimeDistributionSchema = z.object({
  /** By operating system, with its distributions. */
  platforms: z.array(countSchema.extend({ versions: z.array(countSchema) })),
  /** By runtime type, with sidecar modes; agents that do not report one are `unknown`. */
  types: z.array(countSchema.extend({ modes: z.array(countSchema) })),
  /** How many of the agents that report capabilities have it. */
  capabilities: z.array(countSchema.extend({ of: z.number() })),
  legacy: z.object({
    agents: z.number(),
    /** Share of all agents, percent. */
    percent: z.number(),
    phase: legacyPhaseSchema,
    rejectAfter: z.string().nullable(),
    upgradeSteps: z.array(z.string()),
    /** At most 20. */
    listed: z.array(z.object({ agentId: z.string(), version: z.string() })),
  }),
});
export type RuntimeDistribution = z.infer<typeof runtimeDistributionSchema>;
