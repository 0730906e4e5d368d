/** Requests that services answered and made, as kernel hooks saw them, or else spans. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";

/** `server` answered, `client` asked. */
export const trafficRoleSchema = z.enum(["server", "client"]);
export type TrafficRole = z.infer<typeof trafficRoleSchema>;

/** What rows are grouped by, besides service, role and protocol. */
export const redGroupings = ["service", "route", "peer", "status"] as const;
export type RedGrouping = (typeof redGroupings)[number];

/** Everything that is told of requests that agree in the keys. Times in microseconds; null when nothing was measured. */
const amountFields = {
  requests: z.number(),
  /** Of them, those that came over TLS and were read there. */
  tlsRequests: z.number(),
  errors: z.number(),
  requestBytes: z.number(),
  responseBytes: z.number(),
  /** First byte asked to last byte answered. */
  meanUs: z.number().nullable(),
  p50Us: z.number().nullable(),
  p95Us: z.number().nullable(),
  p99Us: z.number().nullable(),
  /** Arrival in the kernel to read by the server, on average; null for clients. */
  queueMeanUs: z.number().nullable(),
  queueP95Us: z.number().nullable(),
  /** First byte asked to first byte answered. */
  firstByteP50Us: z.number().nullable(),
  firstByteP95Us: z.number().nullable(),
};

const keyFields = {
  /** `hooks`: the kernel's; `spans`: no hook saw the service, and its spans tell. Then there are no bytes, queues and first bytes. */
  source: z.enum(["hooks", "spans"]),
  service: z.string(),
  role: trafficRoleSchema,
  /** A name in src/model/protocols.ts; by spans also `db.system` or `span`. */
  protocol: z.string(),
  /** Whether any of them came over TLS and was read there. */
  isTls: z.boolean(),
  /** The other end: a service, a name outside, or an address. Null unless asked by peer. */
  peer: z.string().nullable(),
  /** Null unless asked by route. */
  method: z.string().nullable(),
  route: z.string().nullable(),
  /** Null unless asked by status. */
  status: z.string().nullable(),
};

export const redRowSchema = z.object({
  ...keyFields,
  ...amountFields,
  perSecond: z.number(),
  errorRatio: z.number(),
  /** What is left of the mean without the queue: the server's own time. */
  serviceMeanUs: z.number().nullable(),
  /** The same over as long a time before; null when nothing was seen then. */
  before: z.object({ requests: z.number(), perSecond: z.number(), errorRatio: z.number(), p95Us: z.number().nullable() }).nullable(),
  /** Requests per second in equal parts of the time, oldest first; empty when not wanted. */
  points: z.array(z.number()),
});
export type RedRow = z.infer<typeof redRowSchema>;

export const redFindingSchema = z.object({
  rule: z.enum(["error-share", "slower-than-before", "queueing"]),
  severity: z.enum(["info", "warning", "critical"]),
  service: z.string(),
  /** The row that it is about: `GET /users/{id}`, a peer, a status; empty for the service. */
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
  /** What the amounts cover: less than asked for when the hooks have not watched for so long. */
  windowMs: z.number(),
  by: z.enum(redGroupings),
  /** Rows that there are; `rows` may hold fewer. */
  total: z.number(),
  rows: z.array(redRowSchema),
  /** Worst first. */
  findings: z.array(redFindingSchema),
});
export type RedResult = z.infer<typeof redResultSchema>;

/** One row as the store has it: sums and percentiles of the time asked about. */
export interface RedFact {
  service: string;
  role: TrafficRole;
  protocol: string;
  isTls: boolean;
  peer: string | null;
  method: string | null;
  route: string | null;
  status: string | null;
  requests: number;
  tlsRequests: number;
  errors: number;
  requestBytes: number;
  responseBytes: number;
  meanUs: number | null;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  queueMeanUs: number | null;
  queueP95Us: number | null;
  firstByteP50Us: number | null;
  firstByteP95Us: number | null;
  before: { requests: number; errors: number; p95Us: number | null } | null;
  /** Requests in each part of the time, oldest first. */
  points: number[];
}

/** Which requests are meant; absent fields mean all. */
export interface RedFilter {
  service?: string;
  /** Whole name of a service or a name outside, or an address. */
  peer?: string;
  /** Part of a route, in any case. */
  route?: string;
  protocol?: string;
  role?: TrafficRole;
  agentIds?: string[];
}

export interface RedRequest extends RedFilter {
  by: RedGrouping;
  /** From now back, milliseconds. */
  sinceMs: number;
  /** Upper bound of `points`; 0 = none. */
  maxPoints: number;
  /** Rows with the most requests are kept. */
  limit: number;
  /** With `before`: costs the same again. */
  compare: boolean;
}

export interface RedFacts {
  /** Most requests first. */
  rows: RedFact[];
  /** Rows before the limit. */
  total: number;
  /** The time that the amounts cover: at most `sinceMs`, less when the first row is younger. */
  windowMs: number;
  /** Length of one part of `points`; 0 without. */
  bucketMs: number;
}

/** The same of spans, by the names that they give themselves. */
export interface SpanRedRequest {
  by: Exclude<RedGrouping, "peer">;
  sinceMs: number;
  /** Where the time ends; default now. */
  endAgoMs?: number;
  service?: string;
  role?: TrafficRole;
  /** Part of a route, in any case. */
  route?: string;
  agentIds?: string[];
  points?: number;
  limit: number;
}

export interface SpanRedFacts {
  /** Most requests first. */
  rows: {
    service: string;
    role: TrafficRole | "internal";
    protocol: string;
    method: string | null;
    route: string | null;
    status: string | null;
    requests: number;
    errors: number;
    meanUs: number | null;
    p50Us: number | null;
    p95Us: number | null;
    p99Us: number | null;
    points: number[];
  }[];
  total: number;
  startMs: number;
  endMs: number;
  /** What rates are over. */
  coveredMs: number;
}

/** What hooks did not see, summed over the time asked about. `loss` as in the signal `traffic_loss`. */
export interface TrafficLossFact {
  agentId: string;
  loss: string;
  count: number;
}

/** Requests of one edge, as the end that saw more of them counted. Ends are named as those of an EdgeFact. */
export interface EdgeRedFact {
  client: { kind: "service" | "external" | "host"; name: string };
  server: { kind: "service" | "external" | "host"; name: string };
  serverPort: number;
  /** The one with the most requests: `http`, `postgres`. */
  protocol: string;
  requests: number;
  errors: number;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  /** Spans told it, over this time; absent: hooks counted it. */
  bySpans?: { windowMs: number };
}

/** Which edge; ends may say more about themselves. */
export type EdgeRedKey = Pick<EdgeRedFact, "client" | "server" | "serverPort">;

export interface EdgeRedFacts {
  edges: EdgeRedFact[];
  /** The time that the amounts cover. */
  windowMs: number;
}

/** Processor time of the processes of one service, from the newest samples of its hosts. */
export interface ServiceCpuFact {
  service: string;
  /** 1 = one core fully used. */
  cpuCores: number;
  rssBytes: number;
}

/** One kind of connection of a service: its peer, port and role. */
export const connectionRowSchema = z.object({
  service: z.string(),
  role: z.enum(["server", "client", "peer"]),
  protocol: z.string(),
  /** The other end: a service, a name outside, or an address. */
  peer: z.string(),
  peerAddress: z.string(),
  serverPort: z.number(),
  /** Open now. */
  open: z.number(),
  /** Opened and closed within the time asked about. */
  opened: z.number(),
  closed: z.number(),
  /** Attempts that never became a connection, and connections cut; the three below as far as the reason is known. */
  failed: z.number(),
  refused: z.number(),
  reset: z.number(),
  timedOut: z.number(),
  bytesSent: z.number(),
  bytesReceived: z.number(),
  /** Mean of the ends that tell; null when none does. */
  rttUs: z.number().nullable(),
  retransmits: z.number().nullable(),
  lastSeenAt: isoTimeSchema,
});
export type ConnectionRow = z.infer<typeof connectionRowSchema>;

/** Output of coral_query_connections; most opened first. */
export const connectionListSchema = z.object({
  sinceMs: z.number(),
  total: z.number(),
  connections: z.array(connectionRowSchema),
});
export type ConnectionList = z.infer<typeof connectionListSchema>;

export interface ConnectionsRequest {
  service?: string;
  peer?: string;
  role?: "server" | "client";
  agentIds?: string[];
  sinceMs: number;
  limit: number;
}

export interface ConnectionsFacts {
  /** Most opened first. */
  rows: ConnectionRow[];
  total: number;
  /** Connections and failed attempts of processes that belong to no known service; they are in no row. */
  unattributed: number;
}

/** One service as `coral top` shows it. */
export const topRowSchema = z.object({
  service: z.string(),
  /** Of requests answered; when it only asks, of those. */
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
  /** Requests answered per second, all services. */
  perSecond: z.number(),
  errorRatio: z.number(),
  rows: z.array(topRowSchema),
});
export type TopResult = z.infer<typeof topResultSchema>;
