/** An agent's `GET /v1/status` on its own socket. Plain types: an agent loads no schema library for it. */

import type { RuntimeFacts } from "../../model/runtime-facts.ts";
import type { AgentServiceStatus } from "./managed-service.ts";

export interface AgentStatus {
  agentId: string;
  version: string;
  pid: number;
  hostname: string;
  /** ISO 8601, as all times here. */
  startedAt: string;
  colony: AgentColonyLink;
  store: AgentStoreStatus;
  /** Rows that were made and could not be kept, since the store was created. */
  losses: { signal: string; reason: string; rows: number }[];
  capabilities: { name: string; available: boolean; reason: string }[];
  /** The newest host sample; null before the first. */
  host: AgentHostSummary | null;
  /** Of the newest scan, by name; `items` holds at most 1,000. */
  services: { total: number; items: AgentServiceStatus[] };
  /** What the agent itself costs. */
  process: { cpuRatio: number; rssBytes: number };
  /** Absent from agents that cannot watch requests. */
  traffic?: AgentTrafficStatus;
  /** Absent from agents that do not know OTLP. */
  otlp?: AgentOtlpStatus;
  /** Absent from agents that do not know it. */
  runtime?: RuntimeFacts;
  /** What an operator should know, ready to print. */
  notes: string[];
}

/** Answer of `POST /v1/runtime/refresh` on the agent's socket. */
export interface RuntimeRefreshed {
  runtime: RuntimeFacts;
  /** In words; empty when nothing changed. */
  changes: string[];
  /** The colony has it, or there was nothing to report. */
  isTold: boolean;
}

/** What programs send by OTLP, and where. Counts are since the start. */
export interface AgentOtlpStatus {
  state: "on" | "off" | "unavailable";
  /** Why it is not on; null when it is. */
  reason: string | null;
  /** host:port; null if the listener is disabled. */
  grpc: string | null;
  http: string | null;
  received: { signal: string; requests: number; rows: number; rejected: number; refused: number; bytes: number }[];
  inFlightBytes: number;
  /** Decode threads that run now, and their unexpected ends. */
  workers: number;
  workerRestarts: number;
  /** Share of ordinary traces that is kept now, and spans that were let go. */
  sampling: { share: number; droppedSpans: number };
  /** Null when nothing is forwarded. */
  forward: { endpoint: string; sent: number; dropped: number; refused: number; queuedBytes: number; problem: string } | null;
}

/** How requests are watched, and what that costs and misses. */
export interface AgentTrafficStatus {
  state: "on" | "off" | "starting";
  /** `sockets`: socket tracepoints; `syscalls`: the slower fallback. */
  hooks: "sockets" | "syscalls" | "off";
  /** Whose requests are recorded: those of all processes, or of the agent's pid namespace. Absent for older agents. */
  scope?: "host" | "pid-namespace";
  /** Why it is off, or what is wrong; null when all is well. */
  reason: string | null;
  fix: string | null;
  /** Files whose plaintext is read. */
  tls: { path: string; library: string; processes: number; problem: string | null }[];
  /** Of the ladder; 0 is full detail. */
  step: number;
  /** Of the newest window; null before the first. */
  cost: AgentTrafficCost | null;
  /** Since the agent started; kinds as in the signal `traffic_loss`. */
  losses: { loss: string; count: number }[];
  /** Of the traffic process; null while there is none. */
  pid: number | null;
  /** Unexpected ends since the agent started. */
  restarts: number;
  lastEnd: string | null;
}

export interface AgentTrafficCost {
  /** Share of one core that programs took in the kernel; null where the kernel does not keep it. */
  bpfCpuRatio: number | null;
  /** Of the traffic process, share of one core. */
  processCpuRatio: number;
  processRssBytes: number;
  mapBytes: number;
  requestsPerSecond: number;
}

export interface AgentColonyLink {
  /** Null before the agent has joined. */
  id: string | null;
  /** `host:port`; null when unknown. */
  endpoint: string | null;
  state: "joining" | "connecting" | "connected" | "refused";
  /** When this state began. */
  since: string;
  /** Why the last attempt failed; absent while connected. */
  lastError?: string;
  certificateExpiresAt?: string;
}

export interface AgentStoreStatus {
  /** Where it is; absent from older agents. */
  directory?: string;
  /** UUID of the store. */
  epoch: string;
  fileBytes: number;
  rowsBySignal: Record<string, number>;
  /** Of the oldest stored row. */
  oldestAt?: string;
}

export interface AgentHostSummary {
  sampledAt: string;
  /** Share of all cores, 0..1. */
  cpuBusyRatio: number;
  cpuCount: number;
  /** 1 - available / total. */
  memUsedRatio: number;
  memTotalBytes: number;
  load1m: number;
}
