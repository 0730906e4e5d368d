/** Service health: one shape for the terminal, language models and diagnosis. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";
import { verdictSchema } from "./deployment.ts";
import { openIncidentsSchema } from "./incident.ts";

/** `unknown`: no signals received. Worst first. */
export const healthLevels = ["critical", "degraded", "unknown", "ok"] as const;
export const summaryHealthSchema = z.enum(healthLevels);
export type SummaryHealth = z.infer<typeof summaryHealthSchema>;

export const summaryFindingSchema = z.object({
  /** Rule name; docs/summary.md lists all rules. */
  rule: z.string(),
  /** `critical` and `warning` decide the health, `info` explains. */
  severity: z.enum(["critical", "warning", "info"]),
  /** Symptoms propagate from callee to caller, causes do not; context is neither. */
  kind: z.enum(["symptom", "cause", "context"]),
  /** Subject: host, control group, other service or route; empty for the service itself. */
  subject: z.string(),
  message: z.string(),
  value: z.number(),
  threshold: z.number(),
  unit: z.enum(["ratio", "times", "count"]),
});
export type SummaryFinding = z.infer<typeof summaryFindingSchema>;

const amountFields = {
  perSecond: z.number(),
  errorRatio: z.number(),
  /** Microseconds. */
  p95Us: z.number().nullable(),
};

/** The same measure in a baseline; null without data. */
export const summaryBaselineSchema = z.object(amountFields).nullable();
export type SummaryBaseline = z.infer<typeof summaryBaselineSchema>;

export const summaryRequestsSchema = z.object({
  /** Kernel hooks, or spans where hooks saw nothing. */
  source: z.enum(["hooks", "spans"]),
  /** `server`: requests it served. `client`: requests it sent, for a service that serves none. */
  role: z.enum(["server", "client"]),
  requests: z.number(),
  errors: z.number(),
  ...amountFields,
  p50Us: z.number().nullable(),
  p99Us: z.number().nullable(),
  /** The hour before, after a gap of at least ten minutes. */
  before: summaryBaselineSchema,
  /** The hour around this time yesterday. */
  yesterday: summaryBaselineSchema,
});
export type SummaryRequests = z.infer<typeof summaryRequestsSchema>;

const partFields = { ...amountFields, requests: z.number(), before: summaryBaselineSchema };

export const summaryRouteSchema = z.object({ route: z.string(), ...partFields });
export type SummaryRoute = z.infer<typeof summaryRouteSchema>;

/** The other end of requests: a service, an external name, or an address. `change`: the difference from before; empty when there is none. */
export const summaryPeerSchema = z.object({
  peer: z.string(),
  change: z.enum(["", "new", "gone", "failing", "slower", "faster", "busier", "quieter"]),
  ...partFields,
});
export type SummaryPeer = z.infer<typeof summaryPeerSchema>;

export const summaryHostSchema = z.object({
  agentId: z.string(),
  hostname: z.string(),
  cpuBusyRatio: z.number().nullable(),
  memUsedRatio: z.number().nullable(),
  /** Share of time in which at least one task waited for CPU, memory or IO (PSI). */
  psiCpuRatio: z.number().nullable(),
  psiMemoryRatio: z.number().nullable(),
  psiIoRatio: z.number().nullable(),
  cgroups: z.array(
    z.object({
      cgroup: z.string(),
      cpuCores: z.number().nullable(),
      cpuLimitCores: z.number().nullable(),
      throttledRatio: z.number().nullable(),
      memUsedBytes: z.number().nullable(),
      memLimitBytes: z.number().nullable(),
    }),
  ),
});
export type SummaryHost = z.infer<typeof summaryHostSchema>;

/** Present only when one service is requested. */
export const summaryDetailsSchema = z.object({
  /** When the problem began, within the last hour; null when there is none or it began earlier. */
  onsetAt: isoTimeSchema.nullable(),
  routes: z.array(summaryRouteSchema),
  callers: z.array(summaryPeerSchema),
  callees: z.array(summaryPeerSchema),
  hosts: z.array(summaryHostSchema),
  /** Sum over its processes; null when none is among the busiest of its host. */
  load: z
    .object({ cpuCores: z.number(), rssBytes: z.number(), before: z.object({ cpuCores: z.number(), rssBytes: z.number() }).nullable() })
    .nullable(),
  newPatterns: z.array(
    z.object({ pattern: z.string(), severity: z.string(), template: z.string(), records: z.number(), firstAt: isoTimeSchema.nullable() }),
  ),
  /** Functions whose CPU time grew, then those with the most CPU time; empty without CPU samples. */
  hotFunctions: z.array(
    z.object({
      name: z.string(),
      file: z.string(),
      self: z.number().describe("share of its CPU samples, on top of the stack"),
      total: z.number().describe("including everything it calls"),
      totalBefore: z.number().nullable().describe("in the hour before; null without samples there"),
      grew: z.boolean().describe("the change is larger than chance"),
    }),
  ),
  events: z.array(z.object({ at: isoTimeSchema, kind: z.string(), severity: z.string(), message: z.string() })),
  course: z.object({
    startAt: isoTimeSchema,
    stepMs: z.number(),
    perSecond: z.array(z.number()),
    errorRatio: z.array(z.number()),
    p95Us: z.array(z.number().nullable()),
  }),
});
export type SummaryDetails = z.infer<typeof summaryDetailsSchema>;

export const serviceSummarySchema = z.object({
  service: z.string(),
  health: summaryHealthSchema,
  /** Rules that fired, worst first. */
  findings: z.array(summaryFindingSchema),
  requests: summaryRequestsSchema.nullable(),
  instances: z.number(),
  hosts: z.number(),
  /** Newest deployment of the last day. */
  deployment: z
    .object({ at: isoTimeSchema, what: z.string(), verdict: verdictSchema, isComplete: z.boolean(), reason: z.string() })
    .nullable(),
  details: summaryDetailsSchema.optional(),
});
export type ServiceSummary = z.infer<typeof serviceSummarySchema>;

/** Output of coral_query_summary; worst first. */
export const summaryResultSchema = z.object({
  sinceMs: z.number(),
  windowMs: z.number(),
  /** Number of services by health; `services` may hold fewer. */
  totals: z.object({ services: z.number(), critical: z.number(), degraded: z.number(), unknown: z.number(), ok: z.number() }),
  /** For one service: incidents that involve it. Absent: none is open. */
  incidents: openIncidentsSchema.optional(),
  services: z.array(serviceSummarySchema),
});
export type SummaryResult = z.infer<typeof summaryResultSchema>;
