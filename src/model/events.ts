/** Something that happened: an agent joined, a service restarted, a service calls a new destination, a file was quarantined. */
export interface ColonyEvent {
  at: string;
  /** noun-verb: `agent-joined`, `service-restarted`, `egress-new`. */
  kind: string;
  severity: "info" | "warning" | "error";
  agentId: string | null;
  /** The service that it concerns; null for events of agents and the colony. */
  service: string | null;
  message: string;
  details: Record<string, unknown>;
}

export interface EventsRequest {
  agentIds?: readonly string[];
  kind?: string;
  /** Events that concern it, including summaries that name it. */
  service?: string;
  /** From now back, milliseconds. */
  sinceMs: number;
  limit: number;
}

/** The kind of an agent's event about time in which it observed nothing. Its details are `{fromMs, untilMs, reason}`, wall time. */
export const unobservedKind = "agent-unobserved";

export type UnobservedReason = "stopped" | "killed" | "host-down" | "suspended";

/** Time in which an agent observed nothing. */
export interface UnobservedFact {
  agentId: string;
  fromMs: number;
  untilMs: number;
  /** UnobservedReason; newer agents may have others. */
  reason: string;
}

/** Since when a signal is kept: older rows were removed by retention. */
export interface KeptFact {
  signal: string;
  sinceMs: number;
}
