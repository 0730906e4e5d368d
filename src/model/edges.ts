/** Who calls whom: edges between services, external addresses and hosts. Tools group, walk and limit them. */

/** INTERNAL: both ends are known here; INGRESS: from outside; EGRESS: to the outside. */
export const connectionClasses = ["INTERNAL", "INGRESS", "EGRESS"] as const;
export type ConnectionClass = (typeof connectionClasses)[number];

export type EdgeEndKind = "service" | "external" | "host";

/** `name` is the service's name, the external address, or the agent id of a host whose process was not seen. */
export interface EdgeEnd {
  kind: EdgeEndKind;
  name: string;
  /** A few addresses of a service; none for an external end. */
  addresses: string[];
  /** Agents that saw this end. */
  agentIds: string[];
  /** Name of an external address; null while unresolved. */
  resolved: ResolvedName | null;
}

export interface ResolvedName {
  name: string;
  method: string;
  provider: string | null;
  product: string | null;
}

/** One edge. Amounts are those of the end that saw more; retransmits are the sum of both. */
export interface EdgeFact {
  class: ConnectionClass;
  confidence: number;
  evidence: string[];
  protocol: string;
  serverPort: number;
  client: EdgeEnd;
  server: EdgeEnd;
  connections: number;
  openConnections: number;
  /** Those of `connections` opened within the window. */
  opened: number;
  /** Failed attempts, and connections that were cut. */
  failures: number;
  bytesToServer: number;
  bytesToClient: number;
  rttUs: number | null;
  retransmits: number | null;
  /** ISO 8601, by the agents' clocks. */
  firstSeenAt: string;
  lastSeenAt: string;
  /** The first build of the service that used this edge; null unless the peer is external. */
  firstBuild: string | null;
}

export interface EdgesRequest {
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  /** Only what these agents saw. */
  agentIds?: readonly string[];
  /** Only edges with this service at either end. */
  service?: string;
}

/** Limits on the topology in one answer. */
export interface EdgePageRequest {
  /** Number of nodes; those with the most connections are kept. */
  nodes: number;
  /** Number of edges between these nodes, shared among the classes; those with the most connections are kept. */
  edges: number;
  class?: ConnectionClass;
  /** Excludes the edges of this service. */
  without?: string;
}

/** A node of the topology: a service, an external name or address, or a host. */
export interface TopologyNodeFact {
  /** `service:api`, `external:AWS S3`, `host:<agent id>`. */
  id: string;
  kind: EdgeEndKind;
  name: string;
  /** At most 5. */
  addresses: string[];
  /** At most 5 of `agentCount`. */
  agentIds: string[];
  agentCount: number;
  provider: string | null;
  product: string | null;
}

export interface EdgePageFacts {
  /** Most connections first. */
  nodes: TopologyNodeFact[];
  /** Over all nodes and edges, shown or not; `edges` counts those between the shown nodes. */
  totals: { nodes: number; services: number; ingressSources: number; egressDestinations: number; edges: number };
}

export interface NetworkFacts {
  /** Most connections first. */
  edges: EdgeFact[];
  /** Time that the amounts cover: `sinceMs` rounded up to stored steps, or less if agents have not observed for so long. */
  windowMs: number;
  /** Edges beyond the limit of one answer. Those that a page leaves out are in its totals instead. */
  cutEdges: number;
  /** Present if a page was requested; `edges` are then only those of the page. */
  page?: EdgePageFacts;
  /** Connections without a known service at either end. */
  skippedConnections: number;
  /** Agents of these that lack permission to read socket owners. */
  skippedAgentIds: string[];
  /** Connections whose other end may still be reported, which would make them internal. */
  unsettledConnections: number;
}

/** Identifies one edge; ends may have more fields. */
export interface EdgeRedKey {
  client: Pick<EdgeEnd, "kind" | "name">;
  server: Pick<EdgeEnd, "kind" | "name">;
  serverPort: number;
}

/** Requests of one edge, as counted by the end that saw more of them. */
export interface EdgeRedFact extends EdgeRedKey {
  /** The protocol with the most requests: `http`, `postgres`. */
  protocol: string;
  requests: number;
  errors: number;
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  /** Set if counted from spans, over this time; absent: counted by hooks. */
  bySpans?: { windowMs: number };
}

export interface EdgeRedFacts {
  /** Most requests first. */
  edges: EdgeRedFact[];
  /** Time that the amounts cover. */
  windowMs: number;
}

export interface SpanEdgesRequest extends EdgesRequest {
  /** Only calls between these, under the service names in spans. */
  among?: readonly { client: string; server: string }[];
  /** Number of busiest edges with percentiles, which are most of the work; default 5,000. */
  percentiles?: number;
}

/** Calls of one service to another according to the parents of spans, weighted by sampling. */
export interface SpanEdgeFact {
  client: string;
  server: string;
  /** `http`, `grpc`, `kafka`; `span` if spans do not name one. */
  protocol: string;
  requests: number;
  errors: number;
  /** Duration at the callee, within 3.1 %, of the busiest edges. Null also if only spans of weight 0 are stored. */
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  firstSeenAt: string;
  lastSeenAt: string;
}

export interface SpanEdgeFacts {
  /** Most calls first. */
  edges: SpanEdgeFact[];
  /** Time that the amounts cover: about `sinceMs`, less if the first span is younger. */
  windowMs: number;
}
