/** Rate, errors and durations of requests, as the store returns them. Times are in microseconds; null where nothing was measured. */

/** `server` served the request, `client` sent it. */
export const trafficRoles = ["server", "client"] as const;
export type TrafficRole = (typeof trafficRoles)[number];

/** What rows are grouped by, besides service, role and protocol. */
export const redGroupings = ["service", "route", "peer", "status"] as const;
export type RedGrouping = (typeof redGroupings)[number];

/** Requests that share the keys. */
export interface RedFact {
  service: string;
  role: TrafficRole;
  /** A name in protocols.ts; of spans also `db.system` or `span`. */
  protocol: string;
  /** Any of the requests came over TLS and was read inside it. */
  isTls: boolean;
  /** The other end: a service, an external name, or an address. Null unless grouped by peer. */
  peer: string | null;
  /** Null unless grouped by route. */
  method: string | null;
  route: string | null;
  /** Null unless grouped by status. */
  status: string | null;
  requests: number;
  /** Of these, read inside TLS. */
  tlsRequests: number;
  errors: number;
  requestBytes: number;
  responseBytes: number;
  /** First byte of the request to last byte of the response. */
  meanUs: number | null;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  /** Arrival in the kernel to read by the server; null for clients. */
  queueMeanUs: number | null;
  /** This and the two below: only of the 200 busiest groups. */
  queueP95Us: number | null;
  /** First byte of the request to first byte of the response. */
  firstByteP50Us: number | null;
  firstByteP95Us: number | null;
  /** The same group in the period of equal length before; null when it had no requests or no comparison was requested. */
  before: { requests: number; errors: number; p95Us: number | null } | null;
  /** Requests per bucket, oldest first; empty unless requested. */
  points: number[];
}

/** Selects requests; absent fields match all. */
export interface RedFilter {
  service?: string;
  /** Full name of a service or an external name, or an address. */
  peer?: string;
  /** Part of `GET /users/{id}`, case-insensitive. */
  route?: string;
  status?: string;
  protocol?: string;
  role?: TrafficRole;
  agentIds?: readonly string[];
}

export interface RedRequest extends RedFilter {
  /** Rows never mix services, roles or protocols: a request seen at both ends is in two rows, never twice in one. */
  by: RedGrouping;
  /** From now back, milliseconds. */
  sinceMs: number;
  /** Upper bound of `points`; 0 = none. */
  maxPoints: number;
  /** The groups with the most requests are kept. */
  limit: number;
  /** Fill `before`; doubles the cost. */
  compare: boolean;
}

export interface RedFacts {
  /** Most requests first. */
  rows: RedFact[];
  /** Groups before the limit. */
  total: number;
  /** Time that the amounts cover: at most `sinceMs`, less when the oldest row is younger. */
  windowMs: number;
  /** Length of one bucket of `points`; 0 without. */
  bucketMs: number;
  /** How many of `points` are complete: rows of the last ones are still on their way. Absent: all. */
  settledPoints?: number;
}

export interface SpanRedRequest {
  by: Exclude<RedGrouping, "peer">;
  sinceMs: number;
  /** Where the window ends; default now. */
  endAgoMs?: number;
  service?: string;
  role?: TrafficRole;
  /** Part of a route, case-insensitive. */
  route?: string;
  agentIds?: readonly string[];
  points?: number;
  limit: number;
}

/** Spans that share the keys, under the service names that spans carry. Keys that were not requested are null. */
export interface SpanRedFact {
  service: string;
  role: TrafficRole | "internal";
  protocol: string;
  method: string | null;
  route: string | null;
  status: string | null;
  /** Weighted by how many spans each sampled one represents, as is `errors`. */
  requests: number;
  errors: number;
  meanUs: number | null;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  /** Requests per bucket, oldest first; empty unless requested. */
  points: number[];
}

export interface SpanRedFacts {
  /** Most requests first. */
  rows: SpanRedFact[];
  /** Groups before the limit. */
  total: number;
  /** What was read, in whole roll-up steps; milliseconds since 1970. */
  startMs: number;
  endMs: number;
  /** The part of it in which spans were counted: what rates are over. */
  coveredMs: number;
}

/** What hooks missed. `loss` as in the signal `traffic_loss`. */
export interface TrafficLossFact {
  agentId: string;
  loss: string;
  count: number;
  /** Whose requests are not seen; null for losses of the whole host. */
  service: string | null;
  detail: string | null;
}

/** Load of the processes of one service, from the newest samples of its hosts. */
export interface ServiceCpuFact {
  service: string;
  /** 1 = one core fully used. */
  cpuCores: number;
  rssBytes: number;
}
