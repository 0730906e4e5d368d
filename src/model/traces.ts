/** Traces and spans, as the store returns them. */

import type { OwnStoreFacts } from "./own-stores.ts";

/** A condition on an attribute of a span or its resource. */
export interface AttributeFilter {
  /** In any convention: `http.status_code` and `http.response.status_code` are the same. */
  name: string;
  operator: "=" | "!=" | ">" | ">=" | "<" | "<=" | "~" | "!~";
  /** A number for ordering operators; a regular expression for `~` and `!~`. */
  value: string;
}

/** A trace matches if one of its spans matches every given field. */
export interface TracesRequest {
  service?: string;
  /** Substring of a route, name, path, method, statement or destination, case-insensitive. */
  route?: string;
  minDurationNs?: number;
  /** All must match. A span without the attribute does not match. */
  where?: readonly AttributeFilter[];
  /** Only failed spans. */
  error: boolean;
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  order: "newest" | "slowest";
  limit: number;
  /** Only spans of these agents are searched. */
  agentIds?: readonly string[];
}

/** One trace. Duplicate spans count once. */
export interface TraceSummary {
  traceId: string;
  startedAt: string;
  /** From the first start to the last end of its spans. */
  durationNs: number;
  /** Of the root span, or of the first span if the root is missing. */
  service: string;
  name: string;
  hasRoot: boolean;
  spans: number;
  errors: number;
  /** Up to 20, by name. */
  services: string[];
  /** The longest matching span. */
  matchService: string;
  matchName: string;
  matchDurationNs: number;
  /** How many traces of its kind it represents: more than 1 if traces were sampled, 0 if it was kept only to complete another. */
  weight: number;
}

export interface TracesFacts extends OwnStoreFacts {
  rows: TraceSummary[];
  /** Number of matching traces; an estimate within one or two percent when there are tens of thousands. */
  traces: number;
  /** Matching spans: stored, and weighted by sampling. */
  storedSpans: number;
  estimatedSpans: number;
}

export interface TraceRequest {
  /** 32 hex digits. */
  traceId: string;
  /** Beyond this, the shortest spans are left out. */
  maxSpans: number;
  /** Include `dropped`, `attributes`, `events`, `links` and `resource`. */
  details: boolean;
}

export interface SpanFact {
  spanId: string;
  parentSpanId: string | null;
  agentId: string;
  service: string;
  name: string;
  /** `server`, `client`, `internal`, `producer`, `consumer`, `unspecified`. */
  kind: string;
  /** Microseconds since 1970. */
  startUs: number;
  durationNs: number;
  /** `unset`, `ok`, `error`. */
  status: string;
  statusMessage: string | null;
  weight: number;
  version: string | null;
  host: string | null;
  httpMethod: string | null;
  httpRoute: string | null;
  httpStatusCode: number | null;
  dbSystem: string | null;
  dbStatement: string | null;
  rpcMethod: string | null;
  messagingDestination: string | null;
  peer: string | null;
  errorType: string | null;
  /** Attributes, events and links dropped by the sender or by Coral's limits; 0 without details. */
  dropped: number;
  /** JSON, like the next three; null without details. */
  attributes: string | null;
  events: string | null;
  links: string | null;
  resource: string | null;
}

export interface TraceFacts extends OwnStoreFacts {
  /** Sorted by start. */
  spans: SpanFact[];
  /** Number of spans before `maxSpans`. */
  total: number;
}

/** One process that sent spans for a service at an agent. */
export interface SpanProcessFact {
  agentId: string;
  service: string;
  /** Its resource attributes as a JSON object. */
  resource: string;
}
