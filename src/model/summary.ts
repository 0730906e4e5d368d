/** The facts that health summaries of services are made from. Times are in microseconds unless named otherwise. */

import type { TrafficRole } from "./red.ts";

/** Counted by kernel hooks, or from spans where hooks saw nothing. */
export type RequestSource = "hooks" | "spans";

/** `now` is the requested window, `before` the hour before, `yesterday` the hour around the same time of the previous day. */
export type SummaryPeriod = "now" | "before" | "yesterday";

export interface SummaryRequest {
  /** One service in full; absent: all in short. */
  service?: string;
  /** From now back, milliseconds. */
  sinceMs: number;
}

export interface RequestAmounts {
  requests: number;
  errors: number;
  meanUs: number | null;
  queueMeanUs: number | null;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  /** Time that rows cover: what rates are over. */
  coveredMs: number;
}

/** Requests of one service in one period. */
export interface SummaryRequestsFact extends RequestAmounts {
  source: RequestSource;
  period: SummaryPeriod;
  service: string;
  role: TrafficRole;
}

/** One service at one host, by the newest scan. */
export interface SummaryPlaceFact {
  service: string;
  agentId: string;
  instances: number;
  isPresent: boolean;
  /** Not seen for a while. */
  isStale: boolean;
  health: string | null;
  healthDetail: string | null;
}

export interface SummaryHostFact {
  agentId: string;
  cpuBusyRatio: number | null;
  cpuStealRatio: number | null;
  memUsedRatio: number | null;
  psiCpuRatio: number | null;
  psiMemoryRatio: number | null;
  psiIoRatio: number | null;
  oomKills: number;
}

/** A control group with processes of services. */
export interface SummaryCgroupFact {
  agentId: string;
  cgroup: string;
  services: string[];
  cpuCores: number | null;
  cpuLimitCores: number | null;
  throttledRatio: number | null;
  memUsedBytes: number | null;
  memLimitBytes: number | null;
  oomKills: number;
}

/** Error records of one pattern; of a single service also new patterns of any severity. */
export interface SummaryPatternFact {
  service: string;
  pattern: string;
  template: string;
  severity: string;
  isNew: boolean;
  records: number;
  /** In the hour before. */
  recordsBefore: number;
  firstAt: string | null;
}

export interface SummaryEventFact {
  at: string;
  kind: string;
  severity: string;
  service: string;
  agentId: string | null;
  message: string;
}

export interface SummaryFacts {
  /** The colony's clock, milliseconds since 1970. */
  nowMs: number;
  /** What `now` covers. */
  windowMs: number;
  requests: SummaryRequestsFact[];
  places: SummaryPlaceFact[];
  hosts: SummaryHostFact[];
  cgroups: SummaryCgroupFact[];
  patterns: SummaryPatternFact[];
  /** Newest first. */
  events: SummaryEventFact[];
  /** Services that have log records. */
  logServices: string[];
  /** From a service name in spans to the service that the same process was discovered as. */
  aliases: ReadonlyMap<string, string>;
}

export interface ServiceDetailsRequest {
  service: string;
  source: RequestSource;
  sinceMs: number;
}

export interface SummaryRouteFact extends RequestAmounts {
  period: SummaryPeriod;
  role: TrafficRole;
  method: string;
  route: string;
}

/** The other end: a caller (role `server`) or a callee (role `client`). */
export interface SummaryPeerFact extends RequestAmounts {
  period: SummaryPeriod;
  role: TrafficRole;
  peer: string;
}

export interface ServiceDetailsFacts {
  routes: SummaryRouteFact[];
  peers: SummaryPeerFact[];
  /** Served requests over the last hour, oldest first. */
  course: { startMs: number; stepMs: number; requests: number[]; errors: number[]; p95Us: (number | null)[] };
  /** Averages over its processes together; empty when none is among the busiest of its host. */
  load: { period: "now" | "before"; cpuCores: number; rssBytes: number }[];
}
