/** An agent's `GET /v1/status` on its own socket. Plain types, so that an agent loads no schema library. */

import type { RuntimeFacts } from "../../model/runtime-facts.ts";
import type { AgentServiceStatus } from "./managed-service.ts";

export interface AgentStatus {
  agentId: string;
  version: string;
  pid: number;
  hostname: string;
  /** ISO 8601, like every time here. */
  startedAt: string;
  colony: AgentColonyLink;
  store: AgentStoreStatus;
  /** Rows that were collected but not stored, since the store was created. */
  losses: { signal: string; reason: string; rows: number }[];
  capabilities: { name: string; available: boolean; reason: string }[];
  /** Newest host sample; null before the first. */
  host: AgentHostSummary | null;
  /** Services of the newest scan, by name; at most 1,000 `items`. */
  services: { total: number; items: AgentServiceStatus[] };
  /** CPU and memory that the agent itself uses. */
  process: { cpuRatio: number; rssBytes: number };
  /** Absent for agents that cannot observe requests. */
  traffic?: AgentTrafficStatus;
  /** Absent for agents without an OTLP receiver. */
  otlp?: AgentOtlpStatus;
  /** Absent for older agents. */
  runtime?: RuntimeFacts;
  /** Warnings for the operator, ready to print. */
  notes: string[];
}

/** Answer of `POST /v1/runtime/refresh` on the agent's socket. */
export interface RuntimeRefreshed {
  runtime: RuntimeFacts;
  /** One sentence per change; empty when nothing changed. */
  changes: string[];
  /** True when the colony has received the change, or nothing changed. */
  isTold: boolean;
}

/** The OTLP receiver: its listeners and what arrived. Counts are since the agent started. */
export interface AgentOtlpStatus {
  state: "on" | "off" | "unavailable";
  /** Why it is off; null when it is on. */
  reason: string | null;
  /** host:port; null if the listener is disabled. */
  grpc: string | null;
  http: string | null;
  received: { signal: string; requests: number; rows: number; rejected: number; refused: number; bytes: number }[];
  inFlightBytes: number;
  /** Decode threads running now, and how often one crashed. */
  workers: number;
  workerRestarts: number;
  /** Share of ordinary traces kept now, and spans that sampling dropped. */
  sampling: { share: number; droppedSpans: number };
  /** Null when nothing is forwarded. */
  forward: { endpoint: string; sent: number; dropped: number; refused: number; queuedBytes: number; problem: string } | null;
}

/** How the agent observes requests, what that costs and what it misses. */
export interface AgentTrafficStatus {
  state: "on" | "off" | "starting";
  /** `sockets`: socket tracepoints; `syscalls`: the slower fallback. */
  hooks: "sockets" | "syscalls" | "off";
  /** Processes whose requests are recorded: all of the host, or those of the agent's pid namespace. Absent for older agents. */
  scope?: "host" | "pid-namespace";
  /** Why it is off, or what is degraded; null when neither. */
  reason: string | null;
  fix: string | null;
  /** TLS libraries and programs with probes that read plaintext. */
  tls: { path: string; library: string; processes: number; problem: string | null }[];
  /** Step of the detail ladder: 0 records everything, each further step less. */
  step: number;
  /** Figures of the newest window; null before the first. */
  cost: AgentTrafficCost | null;
  /** Losses since the agent started; kinds as in the signal `traffic_loss`. */
  losses: { loss: string; count: number }[];
  /** Memory of the traffic process; null while none runs. */
  pid: number | null;
  /** Crashes since the agent started. */
  restarts: number;
  lastEnd: string | null;
}

export interface AgentTrafficCost {
  /** CPU time of the BPF programs as a share of one core; null where the kernel keeps no such statistics. */
  bpfCpuRatio: number | null;
  /** CPU time of the traffic process as a share of one core. */
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
  /** Start of the current state. */
  since: string;
  /** Why the last attempt failed; absent while connected. */
  lastError?: string;
  certificateExpiresAt?: string;
}

export interface AgentStoreStatus {
  /** Path of the store; absent for older agents. */
  directory?: string;
  /** UUID of the store. */
  epoch: string;
  fileBytes: number;
  rowsBySignal: Record<string, number>;
  /** Time of the oldest stored row. */
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
