/** Traces and their spans, as OpenTelemetry sent them. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";
import type { OwnStoreFacts } from "./own-stores.ts";

export const traceSummarySchema = z.object({
  traceId: z.string(),
  startedAt: isoTimeSchema,
  /** First start to last end of its spans. */
  durationNs: z.number(),
  /** Of the span that began it; of the first span that is there when that one is missing. */
  service: z.string(),
  name: z.string(),
  hasRoot: z.boolean(),
  spans: z.number(),
  errors: z.number(),
  /** Up to 20. */
  services: z.array(z.string()),
  /** The longest span that fits. */
  matchService: z.string(),
  matchName: z.string(),
  matchDurationNs: z.number(),
  /** How many traces of its kind it stands for: more than 1 when traces were sampled. */
  weight: z.number(),
});
export type TraceSummary = z.infer<typeof traceSummarySchema>;

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
  /** Time in which none of its children ran. */
  selfNs: z.number(),
  /** Its own part of the critical path; null when it is not on it. */
  criticalNs: z.number().nullable(),
  /** Its parent is named and was not found. */
  isOrphan: z.boolean(),
  /** Added to its start because its host's clock differs; 0 mostly. */
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
  /** Attributes, events and links that the sender left out, or that were too many or too long to be kept; 0 without details. */
  dropped: z.number(),
  /** JSON as text, with details only. */
  attributes: z.string().nullable(),
  events: z.string().nullable(),
  links: z.string().nullable(),
  resource: z.string().nullable(),
});
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
  /** Traces that fit; when they are tens of thousands, to a percent or two. */
  total: z.number(),
  /** Spans that fit: stored, and how many they stand for where traces were sampled. */
  storedSpans: z.number(),
  estimatedSpans: z.number(),
  traces: z.array(traceSummarySchema),
  /** With a trace id only. */
  trace: wholeTraceSchema.nullable(),
  /** Agents whose own stores were asked; absent: the colony's alone. */
  ownStores: z.array(z.string()).optional(),
});
export type TracesResult = z.infer<typeof tracesResultSchema>;

/** A trace fits when one of its spans fits all that is given. */
export interface TracesRequest {
  service?: string;
  route?: string;
  minDurationNs?: number;
  error: boolean;
  /** From now back, milliseconds. */
  sinceMs: number;
  order: "newest" | "slowest";
  limit: number;
  agentIds?: string[];
}

export interface TracesFacts extends OwnStoreFacts {
  rows: TraceSummary[];
  traces: number;
  storedSpans: number;
  estimatedSpans: number;
}

/** One span as the store has it. */
export type SpanFact = Omit<TraceSpan, "depth" | "descendants" | "startNs" | "selfNs" | "criticalNs" | "isOrphan" | "clockShiftNs"> & {
  /** Microseconds since 1970. */
  startUs: number;
  weight: number;
};

export interface TraceFacts extends OwnStoreFacts {
  spans: SpanFact[];
  /** Before the limit. */
  total: number;
}

/** Calls of one service to another, as spans tell: weighted by what sampled ones stand for. */
export interface SpanEdgeFact {
  client: string;
  server: string;
  /** `http`, `grpc`, `kafka`; `span` when nothing tells. */
  protocol: string;
  requests: number;
  errors: number;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  firstSeenAt: string;
  lastSeenAt: string;
}

export interface SpanEdgeFacts {
  edges: SpanEdgeFact[];
  /** The time that the amounts cover. */
  windowMs: number;
}

/** One process that sent spans, of those of a service at an agent. */
export interface SpanProcessFact {
  agentId: string;
  service: string;
  /** JSON object of what it says of itself. */
  resource: string;
}
