/** Traces and their spans, as OpenTelemetry sent them. */

import * as z from "zod";
import type { SpanFact, TraceSummary } from "../../model/traces.ts";
import { isoTimeSchema } from "./agent.ts";

export const traceSummarySchema = z.object({
  traceId: z.string(),
  startedAt: isoTimeSchema,
  durationNs: z.number(),
  service: z.string(),
  name: z.string(),
  hasRoot: z.boolean(),
  spans: z.number(),
  errors: z.number(),
  services: z.array(z.string()),
  matchService: z.string(),
  matchName: z.string(),
  matchDurationNs: z.number(),
  weight: z.number(),
}) satisfies z.ZodType<TraceSummary>;

export const traceSpanSchema = z.object({
  spanId: z.string(),
  parentSpanId: z.string().nullable(),
  service: z.string(),
  name: z.string(),
  /** `server`, `client`, `internal`, `producer`, `consumer`, `unspecified`. */
  kind: z.string(),
  /** `unset`, `ok`, `error`. */
  status: z.string(),
  statusMessage: z.string().nullable(),
  depth: z.number(),
  descendants: z.number(),
  /** After the start of the trace. */
  startNs: z.number(),
  durationNs: z.number(),
  /** Time in which no child ran. */
  selfNs: z.number(),
  /** Its share of the critical path; null when it is not on it. */
  criticalNs: z.number().nullable(),
  /** It names a parent that was not found. */
  isOrphan: z.boolean(),
  /** Correction added to its start for clock skew between hosts; usually 0. */
  clockShiftNs: z.number(),
  version: z.string().nullable(),
  host: z.string().nullable(),
  httpMethod: z.string().nullable(),
  httpRoute: z.string().nullable(),
  httpStatusCode: z.number().nullable(),
  dbSystem: z.string().nullable(),
  dbStatement: z.string().nullable(),
  rpcMethod: z.string().nullable(),
  messagingDestination: z.string().nullable(),
  peer: z.string().nullable(),
  errorType: z.string().nullable(),
  /** Attributes, events and links dropped by the sender, or for exceeding limits; 0 without details. */
  dropped: z.number(),
  /** JSON as text, with details only. */
  attributes: z.string().nullable(),
  events: z.string().nullable(),
  links: z.string().nullable(),
  resource: z.string().nullable(),
}) satisfies z.ZodType<Omit<SpanFact, "startUs" | "weight" | "agentId">>;
export type TraceSpan = z.infer<typeof traceSpanSchema>;

export const wholeTraceSchema = z.object({
  traceId: z.string(),
  startedAt: isoTimeSchema,
  durationNs: z.number(),
  /** Before the limit. */
  total: z.number(),
  errors: z.number(),
  /** Distinct services. */
  services: z.array(z.string()),
  /** Depth first: a parent before its children, children by start. */
  spans: z.array(traceSpanSchema),
});
export type WholeTrace = z.infer<typeof wholeTraceSchema>;

/** Output of coral_query_traces. */
export const tracesResultSchema = z.object({
  sinceMs: z.number(),
  /** Matching traces; with tens of thousands an estimate within 1–2 %. */
  total: z.number(),
  /** Matching spans: stored, and the number they represent after sampling. */
  storedSpans: z.number(),
  estimatedSpans: z.number(),
  traces: z.array(traceSummarySchema),
  /** With a trace id only. */
  trace: wholeTraceSchema.nullable(),
  /** Agents whose own stores were read; absent: only the colony's store. */
  ownStores: z.array(z.string()).optional(),
});
export type TracesResult = z.infer<typeof tracesResultSchema>;
