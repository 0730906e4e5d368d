/** Something that happened: an agent joined, a service restarted, a service calls a new destination, a file was quarantined. */
export interface ColonyEvent {
  at: string;
  /** noun-verb: `agent-joined`, `service-restarted`, `egress-new`. */
  kind: string;
  severity: "info" | "warning" | "error";
  agentId: string | null;
  /** The service concerned; null for events of agents and the colony. */
  service: string | null;
  message: string;
  details: Record<string, unknown>;
}

export interface EventsRequest {
  agentIds?: readonly string[];
  kind?: string;
  /** Events concerning this service, including summaries that name it. */
  service?: string;
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  limit: number;
}

/** Kind of an agent's event about time in which it observed nothing. Its details are `{fromMs, untilMs, reason}`, wall time. */
export const unobservedKind = "agent-unobserved";

export type UnobservedReason = "stopped" | "killed" | "host-down" | "suspended";

/** Time in which an agent observed nothing. */
export interface UnobservedFact {
  agentId: string;
  fromMs: number;
  untilMs: number;
  /** An UnobservedReason; newer agents may send others. */
  reason: string;
}

/** Start of the data of a signal: retention removed older rows. */
export interface KeptFact {
  signal: string;
  sinceMs: number;
}
