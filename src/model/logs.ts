/** Log records and their patterns, as the store returns them. */

import type { OwnStoreFacts } from "./own-stores.ts";

export interface LogsRequest {
  service?: string;
  /** Minimum severity, 1 to 24 on OpenTelemetry's scale; excludes records of unknown severity. */
  minSeverity?: number;
  /** Prefix of a pattern's id, 4 to 12 hex digits, or a substring of its template. */
  pattern?: string;
  /** A substring of the body or the attributes, case-insensitive; between slashes a regular expression (RE2). */
  grep?: string;
  /** 32 hex digits. */
  traceId?: string;
  agentIds?: readonly string[];
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  limit: number;
  /** `next` of the previous page. */
  page?: string;
}

export interface LogFact {
  /** ISO 8601. */
  at: string;
  service: string;
  agentId: string;
  /** `trace` to `fatal`; empty when unknown. */
  severity: string;
  /** As the sender wrote it. */
  severityText: string | null;
  /** The first 4,000 of `bodyLength` characters. */
  body: string;
  bodyLength: number;
  traceId: string | null;
  spanId: string | null;
  eventName: string | null;
  exceptionType: string | null;
  pattern: string | null;
  /** JSON; null without attributes, or if they are longer than 2,000 characters. */
  attributes: string | null;
}

export interface LogsFacts extends OwnStoreFacts {
  /** Newest first. */
  rows: LogFact[];
  /** Token of the next page; null on the last page. */
  next: string | null;
  /** Services with records in the window, if the requested one has none. */
  services: string[];
}

export interface LogPatternFact {
  service: string;
  /** 12 hex digits; null for records without a text. */
  pattern: string | null;
  /** The text with `<*>`, `<num>` and the like for variable parts. */
  template: string;
  /** The worst severity seen. */
  severity: string;
  records: number;
  firstAt: string;
  lastAt: string;
  example: string;
  /** An agent saw it for the first time within the window. */
  isNew: boolean;
}

export interface LogPatternsFacts extends OwnStoreFacts {
  /** Most records first. */
  rows: LogPatternFact[];
  /** Number of patterns before the limit. */
  total: number;
  records: number;
  services: string[];
}
