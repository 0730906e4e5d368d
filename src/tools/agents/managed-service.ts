/** Replies about managed services on an agent's own socket. Plain types, so that an agent loads no schema library. */

/** Result of a health check. */
export interface ServiceCheck {
  /** `unknown` until consecutive checks agree, and for services without a check. */
  state: "healthy" | "unhealthy" | "unknown";
  /** Result of the last check, ready to print. */
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

/** `promoted`: discovered before, now managed. `registered`: new to the agent. The others were connected already. */
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
    /** Service that the agent had discovered on the port; null when nothing listened there. */
    discovered: { name: string; method: string } | null;
    /** The session that its credentials opened; absent without credentials. */
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
  /** Null for a process that only opens connections. */
  port: number | null;
  protocol: string | null;
  status: "managed" | "discovered";
  /** How it was discovered; `manual` for managed services. */
  method: string;
  /** Confidence in the name, 0..1. */
  confidence: number;
  /** Number of processes; 0 when nothing listens on the port of a managed service. */
  instances: number;
  /** Build of the newest process; null when the agent lacks permission to read it. */
  pid: number | null;
  exe: string | null;
  build: string | null;
  /** Telemetry that its processes send; absent or null when none arrived recently. */
  sdk?: string | null;
  /** Null for services that are not managed. */
  check: ServiceCheck | null;
}
