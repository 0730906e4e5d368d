/** Requests that services served and sent, from kernel hooks, else from spans. */

import * as z from "zod";
import type { ConnectionRow } from "../../model/connections.ts";
import { type RedFact, redGroupings, trafficRoles } from "../../model/red.ts";
import { isoTimeSchema } from "./agent.ts";

export const trafficRoleSchema = z.enum(trafficRoles);

const amountFields = {
  requests: z.number(),
  tlsRequests: z.number(),
  errors: z.number(),
  requestBytes: z.number(),
  responseBytes: z.number(),
  meanUs: z.number().nullable(),
  p50Us: z.number().nullable(),
  p95Us: z.number().nullable(),
  p99Us: z.number().nullable(),
  queueMeanUs: z.number().nullable(),
  queueP95Us: z.number().nullable(),
  firstByteP50Us: z.number().nullable(),
  firstByteP95Us: z.number().nullable(),
};

const keyFields = {
  /** `hooks`: counted by the kernel hooks; `spans`: no hook saw the service. Spans have no bytes, queues or first bytes. */
  source: z.enum(["hooks", "spans"]),
  service: z.string(),
  role: trafficRoleSchema,
  protocol: z.string(),
  isTls: z.boolean(),
  peer: z.string().nullable(),
  method: z.string().nullable(),
  route: z.string().nullable(),
  status: z.string().nullable(),
};

export const redRowSchema = z.object({
  ...keyFields,
  ...amountFields,
  perSecond: z.number(),
  errorRatio: z.number(),
  /** Mean without queue time: the server's own time. */
  serviceMeanUs: z.number().nullable(),
  /** The same for the preceding window of equal length; null without data. */
  before: z.object({ requests: z.number(), perSecond: z.number(), errorRatio: z.number(), p95Us: z.number().nullable() }).nullable(),
  /** Requests per second in equal intervals, oldest first; empty unless requested. */
  points: z.array(z.number()),
}) satisfies z.ZodType<Omit<RedFact, "before">>;
export type RedRow = z.infer<typeof redRowSchema>;

export const redFindingSchema = z.object({
  rule: z.enum(["error-share", "slower-than-before", "queueing"]),
  severity: z.enum(["info", "warning", "critical"]),
  service: z.string(),
  /** Row that it refers to: `GET /users/{id}`, a peer, a status; empty for the service. */
  subject: z.string(),
  message: z.string(),
  value: z.number(),
  threshold: z.number(),
  unit: z.enum(["ratio", "times"]),
});
export type RedFinding = z.infer<typeof redFindingSchema>;

/** Output of coral_query_red; most requests first. */
export const redResultSchema = z.object({
  sinceMs: z.number(),
  /** Time that the figures cover: shorter than requested when hooks started later. */
  windowMs: z.number(),
  by: z.enum(redGroupings),
  /** Total number of rows; `rows` may hold fewer. */
  total: z.number(),
  rows: z.array(redRowSchema),
  /** Worst first. */
  findings: z.array(redFindingSchema),
});
export type RedResult = z.infer<typeof redResultSchema>;

/** One kind of connection of a service: its peer, port and role. */
export const connectionRowSchema = z.object({
  service: z.string(),
  role: z.enum(["server", "client", "peer"]),
  protocol: z.string(),
  peer: z.string(),
  peerAddress: z.string(),
  serverPort: z.number(),
  open: z.number(),
  opened: z.number(),
  closed: z.number(),
  failed: z.number(),
  refused: z.number(),
  reset: z.number(),
  timedOut: z.number(),
  bytesSent: z.number(),
  bytesReceived: z.number(),
  rttUs: z.number().nullable(),
  retransmits: z.number().nullable(),
  lastSeenAt: isoTimeSchema,
}) satisfies z.ZodType<ConnectionRow>;

/** Output of coral_query_connections; most opened first. */
export const connectionListSchema = z.object({
  sinceMs: z.number(),
  total: z.number(),
  connections: z.array(connectionRowSchema),
});
export type ConnectionList = z.infer<typeof connectionListSchema>;

/** One service as `coral top` shows it. */
export const topRowSchema = z.object({
  service: z.string(),
  /** `server` when it serves requests, `client` when it only sends some; null without requests. */
  role: trafficRoleSchema.nullable(),
  protocols: z.array(z.string()),
  perSecond: z.number(),
  errorRatio: z.number(),
  p50Us: z.number().nullable(),
  p95Us: z.number().nullable(),
  p99Us: z.number().nullable(),
  queueMeanUs: z.number().nullable(),
  /** Null when none of its processes is among the busiest of their hosts. */
  cpuCores: z.number().nullable(),
  rssBytes: z.number().nullable(),
  points: z.array(z.number()),
});
export type TopRow = z.infer<typeof topRowSchema>;

/** Output of coral_query_top. */
export const topResultSchema = z.object({
  sinceMs: z.number(),
  windowMs: z.number(),
  total: z.number(),
  /** Requests served per second, all services. */
  perSecond: z.number(),
  errorRatio: z.number(),
  rows: z.array(topRowSchema),
});
export type TopResult = z.infer<typeof topResultSchema>;
