/** Traces and spans, as the store returns them. */

import type { OwnStoreFacts } from "./own-stores.ts";

/** Compares an attribute of a span or of its sender. */
export interface AttributeFilter {
  /** By any convention: `http.status_code` and `http.response.status_code` are the same. */
  name: string;
  operator: "=" | "!=" | ">" | ">=" | "<" | "<=" | "~" | "!~";
  /** A number where the operator orders; a regular expression for `~` and `!~`. */
  value: string;
}

/** A trace matches when one of its spans matches every given field. */
export interface TracesRequest {
  service?: string;
  /** Part of a route, name, path, method, statement or destination, case-insensitive. */
  route?: string;
  minDurationNs?: number;
  /** All of them. A span without the attribute does not match. */
  where?: readonly AttributeFilter[];
  /** Only spans that failed. */
  error: boolean;
  /** From now back, milliseconds. */
  sinceMs: number;
  order: "newest" | "slowest";
  limit: number;
  /** Only spans of these agents are searched. */
  agentIds?: readonly string[];
}

/** One trace. Spans that were sent twice count once. */
export interface TraceSummary {
  traceId: string;
  startedAt: string;
  /** First start to last end of its spans. */
  durationNs: number;
  /** Of the root span; of the first span when the root is missing. */
  service: string;
  name: string;
  hasRoot: boolean;
  spans: number;
  errors: number;
  /** Up to 20, by name. */
  services: string[];
  /** The longest span that matches. */
  matchService: string;
  matchName: string;
  matchDurationNs: number;
  /** How many traces of its kind it represents: more than 1 when traces were sampled, 0 when it was kept only to complete another. */
  weight: number;
}

export interface TracesFacts extends OwnStoreFacts {
  rows: TraceSummary[];
  /** Traces that match; an estimate within one or two percent when there are tens of thousands. */
  traces: number;
  /** Spans that match: stored, and how many these represent. */
  storedSpans: number;
  estimatedSpans: number;
}

export interface TraceRequest {
  /** 32 hex digits. */
  traceId: string;
  /** The shortest spans are left out beyond this. */
  maxSpans: number;
  /** With `dropped`, `attributes`, `events`, `links` and `resource`. */
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
  /** Attributes, events and links that the sender dropped, or that exceeded Coral's limits; 0 without details. */
  dropped: number;
  /** JSON, as the three below; null without details. */
  attributes: string | null;
  events: string | null;
  links: string | null;
  resource: string | null;
}

export interface TraceFacts extends OwnStoreFacts {
  /** By start. */
  spans: SpanFact[];
  /** Before `maxSpans`. */
  total: number;
}

/** One process that sent spans for a service at an agent. */
export interface SpanProcessFact {
  agentId: string;
  service: string;
  /** Its resource attributes, a JSON object. */
  resource: string;
}
