/** Live requests of a service: the request for a capture and its events. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";
import { trafficRoleSchema } from "./traffic.ts";

const headerSchema = z.tuple([z.string(), z.string()]);

/** One request; redacted at the agent. */
export const capturedRequestSchema = z.object({
  at: isoTimeSchema,
  agentId: z.string(),
  hostname: z.string(),
  service: z.string(),
  pid: z.number(),
  role: trafficRoleSchema,
  protocol: z.string(),
  isTls: z.boolean(),
  /** `10.0.0.5:41234` */
  client: z.string(),
  server: z.string(),
  /** Service at the other end, or the host name used to address it; null when unknown. */
  peer: z.string().nullable(),
  method: z.string(),
  /** As sent, with secrets masked. */
  target: z.string(),
  route: z.string(),
  status: z.string(),
  isError: z.boolean(),
  /** Only headers that the agent's config allows. */
  requestHeaders: z.array(headerSchema),
  responseHeaders: z.array(headerSchema),
  requestBytes: z.number(),
  responseBytes: z.number(),
  durationUs: z.number(),
  firstByteUs: z.number().nullable(),
  queueUs: z.number().nullable(),
  /** First bytes of the body; null unless requested. */
  requestBody: z.string().nullable(),
  responseBody: z.string().nullable(),
});
export type CapturedRequest = z.infer<typeof capturedRequestSchema>;

/** Why one agent's part ended. */
export const captureEndSchema = z.object({
  agentId: z.string(),
  hostname: z.string(),
  /** `limit`, `expired`, `cancelled`, `lost`: the agent disconnected, `failed`: see `problem`. */
  reason: z.enum(["limit", "expired", "cancelled", "lost", "failed"]),
  problem: z.string().nullable(),
  /** Kind of the problem: `unsupported`, `not-permitted`, `unavailable`; null without one. */
  code: z.string().nullable(),
  requests: z.number(),
  /** Matching requests dropped because the reader was too slow. */
  dropped: z.number(),
});
export type CaptureEnd = z.infer<typeof captureEndSchema>;

/** Output of coral_capture_requests. */
export const captureResultSchema = z.object({
  captureId: z.string(),
  service: z.string(),
  requests: z.array(capturedRequestSchema),
  ends: z.array(captureEndSchema),
});
export type CaptureResult = z.infer<typeof captureResultSchema>;

export interface CaptureRequest {
  service: string;
  agentIds: string[];
  /** Part of a route or target. */
  route?: string;
  /** A code, or a class such as `5xx`, or `error`. */
  status?: string;
  minDurationMs: number;
  limit: number;
  durationMs: number;
  includeBody: boolean;
}

/** Events of a running capture, in order; `ended` is the last. */
export type CaptureEvent =
  | { kind: "started"; captureId: string; service: string; agents: { agentId: string; hostname: string }[] }
  /** The agent is capturing now; carries the limits as the agent applied them. */
  | { kind: "agent-started"; agentId: string; hostname: string; processes: number; limit: number; durationMs: number }
  | { kind: "request"; request: CapturedRequest }
  | { kind: "agent-ended"; end: CaptureEnd }
  | { kind: "ended"; requests: number };
