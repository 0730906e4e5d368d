import * as z from "zod";

/** One command or feature of an agent, with why it is absent and what to do about that. */
export const capabilityFactSchema = z.object({ name: z.string(), available: z.boolean(), reason: z.string(), fix: z.string() });

/** Where an agent runs and what it can do there; see src/base/runtime-facts.ts for the words. */
export const runtimeFactsSchema = z.object({
  platform: z.object({ os: z.string(), arch: z.string(), osVersion: z.string(), kernel: z.string() }),
  runtimeType: z.string(),
  /** Empty for all but a Kubernetes sidecar. */
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
});
