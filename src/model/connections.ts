/** Connections of services. */

/** Connections of one service with the same peer, port and role. */
export interface ConnectionRow {
  service: string;
  role: "server" | "client" | "peer";
  protocol: string;
  /** A service, an external name, or an address. */
  peer: string;
  peerAddress: string;
  serverPort: number;
  /** Currently open. */
  open: number;
  /** Opened and closed within the window. */
  opened: number;
  closed: number;
  /** Failed attempts and connections that were cut. The next three count those with a known reason. */
  failed: number;
  refused: number;
  reset: number;
  timedOut: number;
  bytesSent: number;
  bytesReceived: number;
  /** Mean over the ends that report it; null when none does. */
  rttUs: number | null;
  retransmits: number | null;
  /** ISO 8601. */
  lastSeenAt: string;
}

export interface ConnectionsRequest {
  service?: string;
  /** A service, an address, or an external name. */
  peer?: string;
  role?: "server" | "client";
  agentIds?: readonly string[];
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  limit: number;
}

export interface ConnectionsFacts {
  /** Most opened first. */
  rows: ConnectionRow[];
  total: number;
  /** Connections and failed attempts of processes without a known service; not included in any row. */
  unattributed: number;
}
