import * as z from "zod";
import { incidentStates } from "../../model/incident.ts";
import { isoTimeSchema } from "./agent.ts";

const stateSchema = z.enum(incidentStates);
const measureSchema = z.enum(["latency", "errors", "down"]);

export const incidentBriefSchema = z.object({
  id: z.string().describe("inc-7"),
  state: stateSchema,
  severity: z.enum(["critical", "warning"]),
  since: isoTimeSchema,
  durationMs: z.number(),
  service: z.string().describe("affected entry service"),
  symptom: z.string(),
  /** Null: none found yet. */
  cause: z.string().nullable(),
  confidence: z.number().nullable(),
});
export type IncidentBrief = z.infer<typeof incidentBriefSchema>;

const symptomSchema = z.object({
  service: z.string(),
  route: z.string(),
  measure: measureSchema,
  isDeclared: z.boolean().describe("objective set with coral slo, not learnt"),
  usual: z.number().nullable().describe("microseconds, or a share of requests"),
  limit: z.number().nullable().describe("the indicator is repaired at or below this"),
  worst: z.number().nullable(),
  now: z.number().nullable(),
  isOver: z.boolean(),
  message: z.string(),
});
export type IncidentSymptomView = z.infer<typeof symptomSchema>;

export const incidentDetailSchema = incidentBriefSchema.extend({
  openedAt: isoTimeSchema,
  endedAt: isoTimeSchema.nullable(),
  closedAt: isoTimeSchema.nullable(),
  mergedInto: z.string().nullable(),
  symptoms: z.array(symptomSchema),
  causeService: z.string().nullable(),
  causeKind: z.string().nullable(),
  pointer: z.string().nullable(),
  chain: z.array(z.string()),
  evidence: z.array(z.object({ id: z.string(), statement: z.string() })),
  ruledOut: z.array(z.object({ service: z.string(), reason: z.string() })),
  changes: z.array(z.object({ at: isoTimeSchema, kind: z.string(), service: z.string(), message: z.string() })),
  timeline: z.array(z.object({ at: isoTimeSchema, text: z.string() })),
  next: z.array(z.object({ command: z.string(), why: z.string() })),
});
export type IncidentDetail = z.infer<typeof incidentDetailSchema>;

export const incidentsSchema = z.object({
  open: z.number(),
  incidents: z.array(incidentBriefSchema),
  /** Only when an id was given. */
  incident: incidentDetailSchema.nullable(),
});

/** Open incidents in answers about other things; absent when none is open. */
export const openIncidentsSchema = z.object({
  open: z.number(),
  /** The worst one. */
  worst: z.object({
    id: z.string(),
    severity: z.enum(["critical", "warning"]),
    since: isoTimeSchema,
    /** Since when its indicators are within limits; null while they are not. */
    endedAt: isoTimeSchema.nullable(),
    service: z.string(),
    measure: measureSchema,
    /** Microseconds, or a share of requests. */
    now: z.number().nullable(),
  }),
});
export type OpenIncidents = z.infer<typeof openIncidentsSchema>;

const amountsSchema = z.object({
  requests: z.number(),
  /** Microseconds, or a share; null: too few requests. */
  value: z.number().nullable(),
});

export const verificationVerdicts = ["worse", "unchanged", "improved", "resolved", "too-early"] as const;
export const verificationSchema = z.object({
  id: z.string(),
  verdict: z.enum(verificationVerdicts),
  summary: z.string(),
  fixedAt: isoTimeSchema.describe("data after this time is compared"),
  fixedBy: z.string().describe("how that time was chosen"),
  symptoms: z.array(
    z.object({
      service: z.string(),
      route: z.string(),
      measure: measureSchema,
      limit: z.number().nullable(),
      before: amountsSchema,
      during: amountsSchema,
      after: amountsSchema,
      verdict: z.enum(verificationVerdicts),
    }),
  ),
  cause: z.string().nullable().describe("diagnosis of the time after; null: nothing found, or too early"),
});
export type Verification = z.infer<typeof verificationSchema>;

export const whatIfSchema = z.object({
  service: z.string(),
  event: z.enum(["down", "slow"]),
  summary: z.string(),
  windowMs: z.number(),
  affected: z.array(
    z.object({
      service: z.string(),
      /** 1: calls it directly. */
      distance: z.number(),
      path: z.array(z.string()),
      /** Upper bound of the share of its requests; null when it serves no observed requests. */
      share: z.number().nullable(),
      perSecond: z.number().describe("of its calls to the service, or to the next service on the path"),
      isEntry: z.boolean(),
      /** Routes that call it, by spans; empty: not known. */
      routes: z.array(z.string()),
      fallback: z.string().describe("how it behaved in earlier failures; empty: unknown"),
    }),
  ),
  entryRoutes: z.array(z.object({ service: z.string(), route: z.string(), perSecond: z.number(), isKnownToCall: z.boolean() })),
  outsidePerSecond: z.number().describe("requests to the service from outside or unknown callers"),
  confidence: z.enum(["high", "medium", "low"]),
  unknown: z.array(z.string()),
});
export type WhatIf = z.infer<typeof whatIfSchema>;

export const objectiveSchema = z.object({
  service: z.string(),
  route: z.string().describe("empty: all requests"),
  p95Us: z.number().nullable(),
  errorRatio: z.number().nullable(),
  setBy: z.string(),
  setAt: isoTimeSchema,
});
export const objectivesSchema = z.object({ objectives: z.array(objectiveSchema) });
export type ObjectiveList = z.infer<typeof objectivesSchema>;
