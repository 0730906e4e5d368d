/** Facts for health summaries of services. Times are in microseconds unless named otherwise. */

import type { SparseHistogram } from "../base/latency-histogram.ts";
import type { TrafficRole } from "./red.ts";

/** Requests counted by kernel hooks, or from spans where hooks saw nothing. */
export type RequestSource = "hooks" | "spans";

/** `now` is the requested window, `before` the hour before it, `yesterday` the hour around the same time of the previous day. */
export type SummaryPeriod = "now" | "before" | "yesterday";

export interface SummaryRequest {
  /** One service in full. Absent: all services in short. */
  service?: string;
  /** Length of the window back from now, milliseconds. */
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
  /** Time that rows cover; rates are computed over it. */
  coveredMs: number;
}

/** Requests of one service in one period. */
export interface SummaryRequestsFact extends RequestAmounts {
  source: RequestSource;
  period: SummaryPeriod;
  service: string;
  role: TrafficRole;
}

/** One kind of request in a baseline. Windows are ten minutes; for a young route ten seconds, counted in minutes. */
export interface RouteBaseline {
  /** It ended at least ten minutes ago, so a current incident is not in it. */
  isSettled: boolean;
  requests: number;
  errors: number;
  meanUs: number | null;
  /** Windows with requests, and all windows of the period. */
  windows: number;
  windowsExpected: number;
  /** Requests of the quietest window; zero if a window had none. */
  minRequests: number;
  /**
   * Medians over the windows, so that an incident in less than half of them does not count as normal. For a young route, the
   * overall share before the fault.
   */
  errorRatio: number;
  p50Us: number | null;
  p95Us: number | null;
  /** p95 of the window in which it was highest: the upper end of normal. */
  p95HighUs: number | null;
}

/** Requests in ten seconds. */
export interface RouteCell {
  /** End of the cell, milliseconds since 1970. */
  endMs: number;
  requests: number;
  errors: number;
  durationUs: number;
  queueUs: number;
  queueSamples: number;
  durations: SparseHistogram;
}

/** Requests of one kind, the unit of verdicts. */
export interface SummaryRouteHealthFact {
  source: RequestSource;
  service: string;
  role: TrafficRole;
  protocol: string;
  method: string;
  route: string;
  /** In the last five minutes, whatever window is requested. */
  requests: number;
  errors: number;
  p95Us: number | null;
  before: RouteBaseline | null;
  yesterday: RouteBaseline | null;
  /** Newest first; empty unless something differs from the baselines. */
  cells: RouteCell[];
}

/** Calls of one service to another, as the caller saw them. */
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

/** One service at one host, from the newest scan. */
export interface SummaryPlaceFact {
  service: string;
  agentId: string;
  instances: number;
  isPresent: boolean;
  /** Not seen for a while. */
  isStale: boolean;
  /** It has a port, so it expects calls. */
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
  /** The quarter of an hour that ended five minutes ago; null without samples. */
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

/** Error records of one pattern. For a single service, also new patterns of any severity. */
export interface SummaryPatternFact {
  service: string;
  pattern: string;
  template: string;
  severity: string;
  isNew: boolean;
  records: number;
  /** In the time before the period that the service's records cover, at most an hour. */
  recordsBefore: number;
  /** How far its records of any pattern reach back before the period, milliseconds; at most an hour. */
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
  /** Time that `now` covers. */
  windowMs: number;
  requests: SummaryRequestsFact[];
  routes: SummaryRouteHealthFact[];
  /** Calls of services with a route that differs from its baselines or without a running process, and of their callers. */
  calls: SummaryCallFact[];
  places: SummaryPlaceFact[];
  hosts: SummaryHostFact[];
  cgroups: SummaryCgroupFact[];
  patterns: SummaryPatternFact[];
  /** Newest first. */
  events: SummaryEventFact[];
  /** Services that have log records. */
  logServices: string[];
  /** From a service name in spans to the service that was discovered for the same process. */
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

/** A peer: a caller (role `server`) or a callee (role `client`). */
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
  /** Averages over the service's processes; empty if none is among the busiest of its host. */
  load: { period: "now" | "before"; cpuCores: number; rssBytes: number }[];
}
