/** Replies about managed services on an agent's own socket. Plain types: an agent loads no schema library for them. */

/** Answer of a health check. */
export interface ServiceCheck {
  /** `unknown` until checks agree, and for what cannot be checked. */
  state: "healthy" | "unhealthy" | "unknown";
  /** What the last check found, ready to print. */
  detail: string;
  /** ISO 8601; null before the first check. */
  checkedAt: string | null;
}

/** A service that `coral connect` registered at this agent. */
export interface ManagedServiceInfo {
  name: string;
  port: number;
  /** Path of its HTTP check; null: a TCP connection. */
  health: string | null;
  type: string | null;
  /** ISO 8601. */
  connectedAt: string;
  check: ServiceCheck;
}

/** Reply of `GET /v1/services`. */
export interface ManagedServiceList {
  services: ManagedServiceInfo[];
}

/** `promoted` was found by the agent before, `registered` was not; the others were connected already. */
export type ConnectOutcomeKind = "promoted" | "registered" | "updated" | "unchanged";

export interface DatabaseConnected {
  engine: string;
  version: string;
  user: string;
  /** Null: unknown. */
  canWrite: boolean | null;
  notes: string[];
}

/** Reply of `POST /v1/services`. */
export interface ServicesConnected {
  services: (ManagedServiceInfo & {
    outcome: ConnectOutcomeKind;
    /** What the agent had discovered on the port; null when nothing listened there. */
    discovered: { name: string; method: string } | null;
    /** What its credentials opened; absent without credentials. */
    database?: DatabaseConnected | undefined;
  })[];
}

/** Reply of `DELETE /v1/services/<name>`. */
export interface ServiceDisconnected {
  name: string;
  ports: number[];
}

/** One service and port of an agent's newest scan, or a managed one that is not running. */
export interface AgentServiceStatus {
  name: string;
  /** Null for a worker that only calls out. */
  port: number | null;
  protocol: string | null;
  status: "managed" | "discovered";
  /** How it was found; `manual` for managed ones. */
  method: string;
  /** 0..1: how sure the name is. */
  confidence: number;
  /** Processes; 0 when nothing listens on the port of a managed service. */
  instances: number;
  /** Of the newest process; null when it may not be read. */
  pid: number | null;
  exe: string | null;
  build: string | null;
  /** What its programs send by themselves; absent or null when nothing was seen lately. */
  sdk?: string | null;
  /** Null for services that are not managed. */
  check: ServiceCheck | null;
}
