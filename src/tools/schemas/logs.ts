/** Log records and their patterns. */

import * as z from "zod";
import type { LogFact, LogPatternFact } from "../../model/logs.ts";
import { isoTimeSchema } from "./agent.ts";

/** Least severe first. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export const logRecordSchema = z.object({
  at: isoTimeSchema,
  service: z.string(),
  agentId: z.string(),
  /** One of the levels; empty when unknown. */
  severity: z.string(),
  /** Severity as the sender wrote it. */
  severityText: z.string().nullable(),
  body: z.string(),
  /** True when the body is truncated or the attributes are omitted for length. */
  isCut: z.boolean(),
  traceId: z.string().nullable(),
  spanId: z.string().nullable(),
  eventName: z.string().nullable(),
  exceptionType: z.string().nullable(),
  pattern: z.string().nullable(),
  attributes: z.record(z.string(), z.unknown()).nullable(),
}) satisfies z.ZodType<Omit<LogFact, "bodyLength" | "attributes">>;
export type LogRecord = z.infer<typeof logRecordSchema>;

export const logPatternSchema = z.object({
  service: z.string(),
  pattern: z.string().nullable(),
  template: z.string(),
  severity: z.string(),
  records: z.number(),
  perMinute: z.number(),
  firstAt: isoTimeSchema,
  lastAt: isoTimeSchema,
  example: z.string(),
  isNew: z.boolean(),
}) satisfies z.ZodType<LogPatternFact>;
export type LogPattern = z.infer<typeof logPatternSchema>;

/** Output of coral_query_logs. */
export const logResultSchema = z.object({
  sinceMs: z.number(),
  by: z.enum(["record", "pattern"]),
  /** Newest first; empty with `by: "pattern"`. */
  records: z.array(logRecordSchema),
  /** Most records first; empty unless `by: "pattern"`. */
  patterns: z.array(logPatternSchema),
  /** Cursor for older records, passed as "page"; null at the end. */
  next: z.string().nullable(),
  /** Agents whose own stores were read; absent: only the colony's store. */
  ownStores: z.array(z.string()).optional(),
});
export type LogResult = z.infer<typeof logResultSchema>;
