/** Deployments and their comparison with the time before. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";

/** `not-enough-data`: too little to compare, or too early. */
export const verdictSchema = z.enum(["regression", "improvement", "no-change", "not-enough-data"]);
export type Verdict = z.infer<typeof verdictSchema>;

/** How a deployment was detected: a new binary, a new version in spans or environment, or `coral deploy mark`. */
export const foundBySchema = z.enum(["build", "version", "mark"]);

/**
 * `rolling`: the old build still runs beside it. `complete`: the old build is gone. `rolled-back`: the new build is gone and an
 * older one runs. `variant`: both run side by side permanently.
 */
export const deploymentStateSchema = z.enum(["rolling", "complete", "rolled-back", "variant"]);
export type DeploymentState = z.infer<typeof deploymentStateSchema>;

/** One of several builds that run side by side. */
export const buildShareSchema = z.object({
  build: z.string().nullable(),
  version: z.string().nullable(),
  /** Processes; 0 where only spans show the build. */
  instances: z.number(),
  agents: z.number(),
  /** Share of requests in the last five minutes; null where requests cannot be assigned to builds. */
  requests: z.number().nullable(),
});

/** One measure that got worse, got better or changed otherwise. */
export const buildChangeSchema = z.object({
  metric: z.enum(["p50", "p95", "errors", "rate", "cpu", "memory"]),
  /** `GET /users/{id}`; empty for the service as a whole. */
  subject: z.string(),
  outcome: z.enum(["worse", "better", "changed"]),
  /** Microseconds, ratio, per second, cores, microseconds of CPU per request, bytes. */
  unit: z.enum(["us", "ratio", "per-second", "cores", "cpu-us", "bytes"]),
  before: z.number(),
  after: z.number(),
  /** Cliff's delta for latency, Cohen's h for errors; null for the rest. */
  effect: z.number().nullable(),
  /** p-value, corrected for the number of comparisons. */
  pValue: z.number(),
});
export type BuildChange = z.infer<typeof buildChangeSchema>;

/** The time after a deployment compared with the time before. */
export const buildReportSchema = z.object({
  /** Where requests were counted: kernel hooks, or spans where hooks saw none. */
  source: z.enum(["hooks", "spans", "none"]),
  beforeMs: z.number(),
  afterMs: z.number(),
  requestsBefore: z.number(),
  requestsAfter: z.number(),
  /** Comparisons made, and routes with too few requests to compare. */
  comparisons: z.number(),
  tooFew: z.number(),
  /** A change is significant below this corrected p-value. */
  alpha: z.number(),
  /** Worst first. */
  changes: z.array(buildChangeSchema),
  /** External destinations that it had never called before. */
  newEgress: z.array(z.string()),
  /** New patterns of error records. */
  newErrors: z.array(z.object({ template: z.string(), severity: z.string(), records: z.number() })),
});
export type BuildReport = z.infer<typeof buildReportSchema>;

export const deploymentSchema = z.object({
  id: z.string(),
  service: z.string(),
  /** When the first process of the new build started. */
  at: isoTimeSchema,
  foundBy: z.array(foundBySchema),
  build: z.string().nullable(),
  previousBuild: z.string().nullable(),
  version: z.string().nullable(),
  previousVersion: z.string().nullable(),
  note: z.string(),
  /** Who marked it; null when it was detected. */
  markedBy: z.string().nullable(),
  agents: z.array(z.string()),
  verdict: verdictSchema,
  /** What got worse, or why there is no verdict. */
  reason: z.string(),
  /** False while comparisons are pending: the verdict may change. */
  isComplete: z.boolean(),
  report: buildReportSchema.nullable(),
  state: deploymentStateSchema,
  /** The new build first; empty unless several run side by side. */
  shares: z.array(buildShareSchema),
  /** When the old build ended, or the new one after a rollback; null before that or when unknown. */
  endedAt: isoTimeSchema.nullable(),
});
export type Deployment = z.infer<typeof deploymentSchema>;

/** Output of coral_query_deployments; newest first. */
export const deploymentListSchema = z.object({ sinceMs: z.number(), deployments: z.array(deploymentSchema) });
export type DeploymentList = z.infer<typeof deploymentListSchema>;

/** Output of coral_mark_deployment. */
export const deploymentMarkedSchema = z.object({ deployment: deploymentSchema, isNew: z.boolean() });
export type DeploymentMarked = z.infer<typeof deploymentMarkedSchema>;

export interface DeploymentsRequest {
  service?: string;
  /** How far back, milliseconds. */
  sinceMs: number;
  limit: number;
}

export interface MarkDeploymentRequest {
  service: string;
  version?: string;
  note: string;
  /** How far back, milliseconds. */
  agoMs: number;
}
