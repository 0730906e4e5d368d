/**
 * What the traffic process tells the agent, and what the agent asks of it. Sent over the child's channel with structured cloning, so only plain
 * data; nothing here may hold payload bytes that were not asked for and redacted.
 */

import type { SparseHistogram } from "../../base/latency-histogram.ts";
import type { TrafficProtocol } from "../../model/protocols.ts";

/** `server` answered, `client` asked. */
export type TrafficRole = "server" | "client";

/** Requests of one window that agree in everything but their times and sizes. Counts are of this window, not running totals. */
export interface RequestGroup {
  pid: number;
  /** The kernel's name of the process, where it was seen: names one that ended before anybody looked. */
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
  /** Templated path, `service/method`, normalised SQL, key-less command, DNS name; `other` above the limit, `unknown` when it could not be read. */
  route: string;
  /** `200`, gRPC `0`..`16`, SQLSTATE, Redis error word, DNS rcode; empty when the answer has no code; `no-reply` when the connection ended first. */
  status: string;
  isError: boolean;
  count: number;
  requestBytes: number;
  responseBytes: number;
  /** Sums in nanoseconds, for means. A queue time is known only for servers, and not for a connection's first request. */
  durationSumNs: number;
  queueSumNs: number;
  queueCount: number;
  /** First byte asked to last byte answered; `fineLayout`. */
  duration: SparseHistogram;
  /** Arrival in the kernel to read by the server; `coarseLayout`. */
  queue: SparseHistogram;
  /** First byte asked to first byte answered; `coarseLayout`. */
  firstByte: SparseHistogram;
}

/** Why something was not seen. Each is counted where it happens and shown with answers as completeness. */
export const lossKinds = [
  /** A record did not fit into the ring buffer. */
  "ring-full",
  /** Requests counted under route `other`: the kernel's or the agent's table of routes was full. */
  "routes-full",
  /** Connections not followed: the table of connections was full. */
  "connections-full",
  /** Connections whose bytes are no protocol that is known. */
  "unknown-protocol",
  /** Requests that a decoder had to skip (garbage, cut short, or joined in the middle), or that the kernel had no room for. */
  "undecoded",
  /** Memory of a process could not be read at the moment it was needed. */
  "unreadable",
  /** TLS connections whose plaintext cannot be seen: library unknown, symbols missing, switched off. */
  "tls-opaque",
  /** Connections left out, with all that is asked on them, because the agent stepped down its ladder. */
  "sampled-out",
  /** Seconds without any observation: the process was restarted. */
  "away-seconds",
] as const;
export type LossKind = (typeof lossKinds)[number];

export interface TrafficCost {
  /** Time that the kernel spent in Coral's programs in this window; null where the kernel does not keep it. */
  bpfNs: number | null;
  bpfRuns: number | null;
  /** CPU of the traffic process in this window. */
  cpuNs: number;
  rssBytes: number;
  /** Locked kernel memory of maps. */
  mapBytes: number;
}

/** What a process is called in the traffic that it serves. */
export interface TrafficName {
  pid: number;
  port: number;
  source: "http_host" | "grpc_service" | "tls_sni";
  name: string;
  requests: number;
}

/** A name by which clients reach an address: from SNI and Host of their requests. */
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
  cost: TrafficCost;
}

/** What is attached and how, for `coral agent status` and `coral doctor`. */
export interface TrafficState {
  kind: "state";
  /** `sockets`: socket tracepoints; `syscalls`: the slower fallback; `off`: see `problem`. */
  hooks: "sockets" | "syscalls" | "off";
  problem: string | null;
  /** Files with probes for plaintext, and how many running processes use them. `other` is a program whose TLS stays closed; its problem says why. */
  tls: { path: string; library: "openssl" | "node" | "go" | "other"; processes: number; problem: string | null }[];
  /** Current step of the ladder; 0 is full detail. */
  step: number;
}

/** One request, for `coral capture`. Redacted before it leaves the traffic process. */
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
  /** Only when the capture asked for bodies: the first bytes, redacted, as text. */
  requestBody: string | null;
  responseBody: string | null;
}

/** One TCP connection that began, ended, or was not established. */
export interface ConnectionEvent {
  /** `opened`: the first one of a peer; its end is told too. */
  kind: "opened" | "closed" | "failed";
  /** Null when it is older than the hook. */
  role: TrafficRole | null;
  /** Who called connect(2); 0 for servers, whose listener tells it, and when it is older than the hook. */
  pid: number;
  networkNamespace: number;
  localAddress: string;
  localPort: number;
  remoteAddress: string;
  remotePort: number;
  /** CLOCK_MONOTONIC; 0 when it is older than the hook. */
  startedNs: bigint;
  atNs: bigint;
  bytesSent: number;
  bytesReceived: number;
  rttUs: number | null;
  retransmits: number;
  /** Why it failed or was cut; null when it ended in order, or the kernel does not say. */
  reason: "refused" | "reset" | "timed-out" | null;
}

/** Connections between the same ends that no scan can have seen, added up. Counts are since the last report. */
export interface PeerConnections {
  role: TrafficRole;
  /** As in `ConnectionEvent`. */
  pid: number;
  networkNamespace: number;
  localAddress: string;
  remoteAddress: string;
  serverPort: number;
  connections: number;
  /** Attempts that were not established. */
  failed: number;
  /** Of both, as far as the kernel says. */
  refused: number;
  reset: number;
  timedOut: number;
  bytesSent: number;
  bytesReceived: number;
  /** Mean over those that had one. */
  rttUs: number | null;
  retransmits: number;
  /** CLOCK_MONOTONIC: the begin of the first, the end of the last. */
  firstNs: bigint;
  lastNs: bigint;
}

export interface ConnectionsReport {
  kind: "connections";
  events: ConnectionEvent[];
  peers: PeerConnections[];
  /** Connections that were neither told nor added up. */
  lost: number;
  /** The mark of a scan that this answers: everything that ended before it has been reported. */
  mark: number | null;
}

/** Whether connections are watched in the kernel; `problem` says why not. */
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
  /** Entries in the kernel's table of request kinds. Default 4096. */
  maxRequestKinds: number;
  maxConnections: number;
  maxRoutesPerService: number;
  ringBytes: number;
  /** Programs whose plaintext stays unread: matched against the executable's path and name. */
  tls: {
    isEnabled: boolean;
    /** `*` stands for anything. */
    excludedExecutables: string[];
    /** Processes of services whose plaintext stays unread, by the agent's newest scan. Absent: none. */
    excludedPids?: number[];
  };
  /** Not decoded, not counted. Absent: none. */
  disabledProtocols?: TrafficProtocol[];
  /**
   * Share of one core that this process may take before detail is left out. Default 0.01 per core. Programs in the kernel may take twenty times
   * as much: leaving them out would make counts wrong.
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
  /** The first order, and again whenever they change. `ownPids`: processes of Coral, which are not observed. */
  | { kind: "settings"; settings: TrafficSettings; ownPids: number[] }
  | { kind: "capture"; order: CaptureOrder }
  | { kind: "stop-capture"; captureId: string }
  /** The agent begins or has ended a scan of sockets; answered by a report with the same mark. */
  | { kind: "scan"; phase: "begin" | "end"; mark: number };
