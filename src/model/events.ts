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
