/** Log records and their patterns. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";
import type { OwnStoreFacts } from "./own-stores.ts";

/** Least severe first. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export const logRecordSchema = z.object({
  at: isoTimeSchema,
  service: z.string(),
  agentId: z.string(),
  /** One of the levels; empty when unknown. */
  severity: z.string(),
  /** The sender's own word. */
  severityText: z.string().nullable(),
  body: z.string(),
  /** Whether only the beginning of the body, or nothing of its attributes, is shown because they are long. */
  isCut: z.boolean(),
  traceId: z.string().nullable(),
  spanId: z.string().nullable(),
  eventName: z.string().nullable(),
  exceptionType: z.string().nullable(),
  pattern: z.string().nullable(),
  attributes: z.record(z.string(), z.unknown()).nullable(),
});
export type LogRecord = z.infer<typeof logRecordSchema>;

export const logPatternSchema = z.object({
  service: z.string(),
  /** 12 hex digits, for the input "pattern"; null for records without a text. */
  pattern: z.string().nullable(),
  /** The text with `<*>`, `<num>` and the like for what changes. */
  template: z.string(),
  /** The worst that was seen. */
  severity: z.string(),
  records: z.number(),
  perMinute: z.number(),
  firstAt: isoTimeSchema,
  lastAt: isoTimeSchema,
  example: z.string(),
  /** Whether an agent saw it for the first time within the time asked about. */
  isNew: z.boolean(),
});
export type LogPattern = z.infer<typeof logPatternSchema>;

/** Output of coral_query_logs. */
export const logResultSchema = z.object({
  sinceMs: z.number(),
  by: z.enum(["record", "pattern"]),
  /** Newest first; empty when asked by pattern. */
  records: z.array(logRecordSchema),
  /** Most records first; empty unless asked by pattern. */
  patterns: z.array(logPatternSchema),
  /** Pass it as "page" for the older records; null at the end. */
  next: z.string().nullable(),
  /** Agents whose own stores were asked; absent: the colony's alone. */
  ownStores: z.array(z.string()).optional(),
});
export type LogResult = z.infer<typeof logResultSchema>;

export interface LogsRequest {
  service?: string;
  /** At least this severe, 1 to 24 by OpenTelemetry's scale. */
  minSeverity?: number;
  pattern?: string;
  grep?: string;
  traceId?: string;
  agentIds?: string[];
  /** From now back, milliseconds. */
  sinceMs: number;
  limit: number;
  page?: string;
}

/** A record as the store has it; `bodyLength` in characters, `attributes` as JSON. */
export interface LogFact {
  at: string;
  service: string;
  agentId: string;
  severity: string;
  severityText: string | null;
  body: string;
  bodyLength: number;
  traceId: string | null;
  spanId: string | null;
  eventName: string | null;
  exceptionType: string | null;
  pattern: string | null;
  attributes: string | null;
}

export interface LogsFacts extends OwnStoreFacts {
  /** Newest first. */
  rows: LogFact[];
  next: string | null;
  /** Names that have records, when the one asked for has none. */
  services: string[];
}

export type LogPatternFact = Omit<LogPattern, "perMinute">;

export interface LogPatternsFacts extends OwnStoreFacts {
  rows: LogPatternFact[];
  /** Patterns before the limit. */
  total: number;
  records: number;
  services: string[];
}
