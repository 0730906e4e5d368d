/** The facts that health summaries of services are made from. Times are in microseconds unless named otherwise. */

import type { SparseHistogram } from "../base/latency-histogram.ts";
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

/** What one kind of request was like in a baseline. Windows are ten minutes; of a young route ten seconds, counted in minutes. */
export interface RouteBaseline {
  /** It ended at least ten minutes ago, so that an incident of now is not in it. */
  isSettled: boolean;
  requests: number;
  errors: number;
  meanUs: number | null;
  /** Windows with requests, and those that the period has. */
  windows: number;
  windowsExpected: number;
  /** Requests of the quietest window; zero when a window had none. */
  minRequests: number;
  /** Medians over the windows: an incident in less than half of them does not count as normal. Of a young route the share of all up to its fault. */
  errorRatio: number;
  p50Us: number | null;
  p95Us: number | null;
  /** The window with the highest p95: how far normal goes. */
  p95HighUs: number | null;
}

/** Requests of ten seconds. */
export interface RouteCell {
  /** When it ended, milliseconds since 1970. */
  endMs: number;
  requests: number;
  errors: number;
  durationUs: number;
  queueUs: number;
  queueSamples: number;
  durations: SparseHistogram;
}

/** Requests of one kind: what verdicts are about. */
export interface SummaryRouteHealthFact {
  source: RequestSource;
  service: string;
  role: TrafficRole;
  protocol: string;
  method: string;
  route: string;
  /** Of the last five minutes, whatever period is asked for. */
  requests: number;
  errors: number;
  p95Us: number | null;
  before: RouteBaseline | null;
  yesterday: RouteBaseline | null;
  /** Newest first; empty unless something differs from the baselines. */
  cells: RouteCell[];
}

/** What a service asked of another, as the caller saw it. */
export interface SummaryCallFact {
  service: string;
  callee: string;
  now: CallAmounts;
  before: CallAmounts;
}

export interface CallAmounts {
  requests: number;
  errors: number;
  durationUs: number;
}

/** One service at one host, by the newest scan. */
export interface SummaryPlaceFact {
  service: string;
  agentId: string;
  instances: number;
  isPresent: boolean;
  /** Not seen for a while. */
  isStale: boolean;
  /** It has a port: it is there to be called. */
  isListening: boolean;
  /** Another service listens on its port now. */
  isReplaced: boolean;
  /** How long it was seen there, milliseconds. */
  seenMs: number;
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
  /** The quarter of an hour that ended five minutes ago; null when nothing is known of it. */
  usual: { cpuBusyRatio: number | null; psiCpuRatio: number | null; psiMemoryRatio: number | null; psiIoRatio: number | null };
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
  /** In the time before that the service's records cover, at most an hour. */
  recordsBefore: number;
  /** How long its records of any pattern go back before the period, milliseconds; at most an hour. */
  coveredBeforeMs: number;
  firstAt: string | null;
  lastAt: string | null;
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
  routes: SummaryRouteHealthFact[];
  /** Of services with a route that differs from its baselines, or with no process left, and of their callers. */
  calls: SummaryCallFact[];
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
