/**
 * The messages between agent and traffic process: reports from the process, orders from the agent. Sent over the child's IPC channel with structured
 * cloning, so plain data only. Payload bytes appear only in a capture, redacted.
 */

import type { SparseHistogram } from "../../base/latency-histogram.ts";
import type { TrafficProtocol } from "../../model/protocols.ts";

/** Whether the process served the request or sent it. */
export type TrafficRole = "server" | "client";

/** Requests of one window that differ only in times and sizes. Counts are per window, not running totals. */
export interface RequestGroup {
  pid: number;
  /** The kernel's name of the process, if known: names processes that ended before a scan saw them. */
  processName?: string;
  role: TrafficRole;
  protocol: TrafficProtocol;
  isTls: boolean;
  /** The server's port, at either end. */
  serverPort: number;
  /** The other end: the server for a client, the caller for a server. Canonical text, IPv4-mapped addresses as IPv4. */
  peerAddress: string;
  /** HTTP method, SQL verb, Redis command, Kafka API, DNS type; empty where there is none. */
  method: string;
  /** Templated path, `service/method`, SQL without literals, command without keys, DNS name; `other` above the limit, `unknown` when it could not be read. */
  route: string;
  /** `200`, gRPC `0`..`16`, SQLSTATE, Redis error word, DNS rcode; empty when the response has no code; `no-reply` when the connection ended first. */
  status: string;
  isError: boolean;
  count: number;
  requestBytes: number;
  responseBytes: number;
  /** Sums in nanoseconds, for means. A queue time is known only for servers, and not for a connection's first request. */
  durationSumNs: number;
  queueSumNs: number;
  queueCount: number;
  /** First byte of the request to last byte of the response; `fineLayout`. */
  duration: SparseHistogram;
  /** Arrival in the kernel to read by the server; `coarseLayout`. */
  queue: SparseHistogram;
  /** First byte of the request to first byte of the response; `coarseLayout`. */
  firstByte: SparseHistogram;
}

/** Why something was not observed. Each loss is counted where it happens and shown with query results as completeness. */
export const lossKinds = [
  /** A record did not fit into the ring buffer. */
  "ring-full",
  /** Requests counted under route `other`: the kernel's or the agent's table of routes was full. */
  "routes-full",
  /** Connections not tracked: the table of connections was full. */
  "connections-full",
  /** Connections of an unknown protocol. */
  "unknown-protocol",
  /** Requests that a decoder had to skip (invalid, truncated, or joined in the middle), or that did not fit into a kernel table. */
  "undecoded",
  /** Memory of a process could not be read when it was needed. */
  "unreadable",
  /** TLS connections whose plaintext cannot be read: unknown library, missing symbols, or disabled. */
  "tls-opaque",
  /** Connections skipped with all their requests, because the agent stepped down its budget ladder. */
  "sampled-out",
  /** Seconds without observation: the traffic process was restarted. */
  "away-seconds",
] as const;
export type LossKind = (typeof lossKinds)[number];

/** Why requests of one process are not seen, although it exchanges some. */
export const unseenReasons = ["tls-unreadable", "unix-socket", "io-uring"] as const;
export type UnseenReason = (typeof unseenReasons)[number];

export interface UnseenRequests {
  pid: number;
  reason: UnseenReason;
  /** Which TLS library cannot be read, or why; empty for other reasons. */
  detail: string;
  /** What was noticed in the window; how many requests that were is unknown. */
  count: number;
}

export interface TrafficCost {
  /** Time that the kernel spent in Coral's BPF programs in this window; null if the kernel does not measure it. */
  bpfNs: number | null;
  bpfRuns: number | null;
  /** CPU of the traffic process in this window. */
  cpuNs: number;
  rssBytes: number;
  /** Locked kernel memory of maps. */
  mapBytes: number;
}

/** A name by which clients address a server process. */
export interface TrafficName {
  pid: number;
  port: number;
  source: "http_host" | "grpc_service" | "tls_sni";
  name: string;
  requests: number;
}

/** A name by which clients address a peer: from SNI and Host of their requests, or DNS. */
export interface PeerName {
  address: string;
  port: number;
  name: string;
  source: "http_host" | "tls_sni" | "dns";
}

export interface TrafficWindow {
  kind: "window";
  /** CLOCK_MONOTONIC, nanoseconds. */
  fromNs: bigint;
  toNs: bigint;
  requests: RequestGroup[];
  losses: { loss: LossKind; count: number }[];
  names: TrafficName[];
  peerNames: PeerName[];
  /** Default: none. */
  unseen?: UnseenRequests[];
  cost: TrafficCost;
}

/** What is attached and how, for `coral agent status` and `coral doctor`. */
export interface TrafficState {
  kind: "state";
  /** `sockets`: socket tracepoints; `syscalls`: the slower fallback; `off`: `problem` has the reason. */
  hooks: "sockets" | "syscalls" | "off";
  problem: string | null;
  /** Files with plaintext probes, and how many running processes use them. `other`: a program whose TLS cannot be read; `problem` has the reason. */
  tls: { path: string; library: "openssl" | "node" | "go" | "other"; processes: number; problem: string | null }[];
  /** Current step of the budget ladder; 0 is full detail. */
  step: number;
}

/** One request of `coral capture`. Redacted before it leaves the traffic process. */
export interface CapturedRequest {
  kind: "captured";
  captureId: string;
  at: { monoNs: bigint };
  pid: number;
  role: TrafficRole;
  protocol: TrafficProtocol;
  isTls: boolean;
  clientAddress: string;
  clientPort: number;
  serverAddress: string;
  serverPort: number;
  /** The service at the other end, or its host name; added by the agent. */
  peer?: string | null;
  method: string;
  /** As sent, with secrets in the query masked. */
  target: string;
  route: string;
  status: string;
  isError: boolean;
  requestHeaders: [name: string, value: string][];
  responseHeaders: [name: string, value: string][];
  requestBytes: number;
  responseBytes: number;
  durationNs: number;
  firstByteNs: number | null;
  queueNs: number | null;
  /** Only if the capture includes bodies: the first bytes, redacted, as text. */
  requestBody: string | null;
  responseBody: string | null;
}

/** A TCP connection that was opened, was closed, or failed to open. */
export interface ConnectionEvent {
  /** `opened`: the first one of a peer; its end is reported, too. */
  kind: "opened" | "closed" | "failed";
  /** Null if the connection is older than the hook. */
  role: TrafficRole | null;
  /** The process that called connect(2); 0 for servers, which are found by their listener, and if the connection is older than the hook. */
  pid: number;
  networkNamespace: number;
  localAddress: string;
  localPort: number;
  remoteAddress: string;
  remotePort: number;
  /** CLOCK_MONOTONIC; 0 if the connection is older than the hook. */
  startedNs: bigint;
  atNs: bigint;
  bytesSent: number;
  bytesReceived: number;
  rttUs: number | null;
  retransmits: number;
  /** Why it failed or was aborted; null after an orderly close, or if the kernel does not report it. */
  reason: "refused" | "reset" | "timed-out" | null;
}

/** Sums of the connections between two ends that were too short for a socket scan to see. Counts are since the last report. */
export interface PeerConnections {
  role: TrafficRole;
  /** As in `ConnectionEvent`. */
  pid: number;
  networkNamespace: number;
  localAddress: string;
  remoteAddress: string;
  serverPort: number;
  connections: number;
  /** Attempts that failed. */
  failed: number;
  /** Of both `connections` and `failed`, as far as the kernel reports it. */
  refused: number;
  reset: number;
  timedOut: number;
  bytesSent: number;
  bytesReceived: number;
  /** Mean over connections with a measured round trip. */
  rttUs: number | null;
  retransmits: number;
  /** CLOCK_MONOTONIC: start of the first, end of the last. */
  firstNs: bigint;
  lastNs: bigint;
}

export interface ConnectionsReport {
  kind: "connections";
  events: ConnectionEvent[];
  peers: PeerConnections[];
  /** Connections that are neither in `events` nor in `peers`. */
  lost: number;
  /** The mark of a socket scan: everything that ended before that mark has been reported. */
  mark: number | null;
}

/** Whether connections are tracked in the kernel; otherwise `problem` has the reason. */
export interface ConnectionsState {
  kind: "connections-state";
  problem: string | null;
}

export type TrafficReport =
  | TrafficWindow
  | TrafficState
  | CapturedRequest
  | ConnectionsReport
  | ConnectionsState
  | { kind: "capture-ended"; captureId: string; reason: "limit" | "expired" };

export interface TrafficSettings {
  /** Default 10 s. */
  windowMs: number;
  /** Size of the kernel's table of request kinds. Default 4096. */
  maxRequestKinds: number;
  maxConnections: number;
  maxRoutesPerService: number;
  ringBytes: number;
  /** Reading of plaintext inside TLS. */
  tls: {
    isEnabled: boolean;
    /** Patterns for paths or names of executables whose plaintext is not read; `*` matches anything. */
    excludedExecutables: string[];
    /** Processes whose plaintext is not read because their service is excluded, by the agent's latest scan. Default: none. */
    excludedPids?: number[];
  };
  /** Neither decoded nor counted. Default: none. */
  disabledProtocols?: TrafficProtocol[];
  /**
   * Share of one core that this process may use before it drops detail. Default 0.01 per core. BPF programs may use twenty times as much: without
   * them counts would be wrong.
   */
  cpuBudget: number;
}

export interface CaptureOrder {
  captureId: string;
  pids: number[];
  route: string | null;
  status: string | null;
  minDurationMs: number;
  limit: number;
  durationMs: number;
  includeBody: boolean;
}

export type TrafficOrder =
  /** The first order; sent again when settings change. `ownPids`: processes of Coral, which are not observed. */
  | { kind: "settings"; settings: TrafficSettings; ownPids: number[] }
  | { kind: "capture"; order: CaptureOrder }
  | { kind: "stop-capture"; captureId: string }
  /** The agent starts or has finished a socket scan; confirmed by a report with the same mark. */
  | { kind: "scan"; phase: "begin" | "end"; mark: number };
