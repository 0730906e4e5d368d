/** The service graph, built from the agents' connections. */

import * as z from "zod";
import { connectionClasses, type TopologyNodeFact } from "../../model/edges.ts";
import { isoTimeSchema } from "./agent.ts";

export const connectionClassSchema = z.enum(connectionClasses);

/** Traffic in the window. Rates are over the window, or over the observed time when that is shorter. */
const trafficFields = {
  /** Connections open at any time in the window. */
  connections: z.number(),
  openConnections: z.number(),
  /** Newly opened. */
  connectionsPerMinute: z.number(),
  /** Failed attempts, and connections ended by a reset or timeout. Failed attempts are not in `connections`. */
  failures: z.number(),
  bytesToServer: z.number(),
  bytesToClient: z.number(),
  bytesPerMinute: z.number(),
  rttUs: z.number().nullable(),
  retransmits: z.number().nullable(),
  firstSeenAt: isoTimeSchema,
  lastSeenAt: isoTimeSchema,
};

/** One service and one external address. */
export const endpointUseSchema = z.object({
  service: z.string(),
  /** Host names, at most 20. */
  agents: z.array(z.string()),
  /** `*`: the addresses beyond the limit of one service. */
  address: z.string(),
  /** Port of the external address, for egress; null for ingress, where it is ephemeral. */
  port: z.number().nullable(),
  /** Port of the service, for ingress; null for egress. */
  servicePort: z.number().nullable(),
  protocol: z.string(),
  /** `public` for addresses of the internet. */
  scope: z.enum(["public", "private"]),
  name: z.string().nullable(),
  /** `saas`, `reverse_dns`, `provider_range`. */
  nameMethod: z.string().nullable(),
  provider: z.string().nullable(),
  product: z.string().nullable(),
  class: connectionClassSchema,
  confidence: z.number(),
  /** First build of the service with this traffic. */
  firstBuild: z.string().nullable(),
  ...trafficFields,
});
export type EndpointUse = z.infer<typeof endpointUseSchema>;

/** Output of coral_get_ingress and coral_get_egress; most connections first. */
export const endpointListSchema = z.object({
  sinceMs: z.number(),
  total: z.number(),
  endpoints: z.array(endpointUseSchema),
});
export type EndpointList = z.infer<typeof endpointListSchema>;

/** An external dependency: one name, or one unnamed address. */
export const externalDependencySchema = z.object({
  name: z.string(),
  nameMethod: z.string().nullable(),
  provider: z.string().nullable(),
  product: z.string().nullable(),
  scope: z.enum(["public", "private"]),
  ports: z.array(z.number()),
  /** At most 10 of `addressCount`. */
  addresses: z.array(z.string()),
  addressCount: z.number(),
  confidence: z.number(),
  services: z.array(
    z.object({
      service: z.string(),
      connections: z.number(),
      connectionsPerMinute: z.number(),
      bytesToServer: z.number(),
      bytesToClient: z.number(),
      firstSeenAt: isoTimeSchema,
      lastSeenAt: isoTimeSchema,
      firstBuild: z.string().nullable(),
    }),
  ),
  ...trafficFields,
});
export type ExternalDependency = z.infer<typeof externalDependencySchema>;

/** Output of coral_get_external_dependencies; most connections first. */
export const dependencyListSchema = z.object({
  sinceMs: z.number(),
  total: z.number(),
  dependencies: z.array(externalDependencySchema),
});
export type DependencyList = z.infer<typeof dependencyListSchema>;

/** A service, an external endpoint, or a host whose process at that end is unknown. */
export const topologyNodeSchema = z.object({
  /** `service:api`, `external:s3.amazonaws.com`, `host:<agent id>`. */
  id: z.string(),
  kind: z.enum(["service", "external", "host"]),
  name: z.string(),
  /** At most 5. */
  addresses: z.array(z.string()),
  /** Host names, at most 5 of `agentCount`. */
  agents: z.array(z.string()),
  agentCount: z.number(),
  provider: z.string().nullable(),
  product: z.string().nullable(),
  /** Hops from the selected service, 0 for itself; null without a selection. */
  distance: z.number().nullable(),
  /** Relation to the selected service: itself, dependent, dependency, or both. `attempt`: all connections failed. Null without a selection. */
  relation: z.enum(["asked", "dependent", "dependency", "both", "attempt"]).nullable(),
}) satisfies z.ZodType<Omit<TopologyNodeFact, "agentIds">>;
export type TopologyNode = z.infer<typeof topologyNodeSchema>;

/** Ids of caller and callee. */
export const topologyEdgeSchema = z.object({
  from: z.string(),
  to: z.string(),
  protocol: z.string(),
  /** Of the callee; 0 when only spans show the edge. */
  port: z.number(),
  class: connectionClassSchema,
  confidence: z.number(),
  /** `both-ends` (observed and matched at both), `client-end`, `server-end`, `address-registry`, `named-outside`; `requests`: hooks saw requests; `spans`: traces name both. */
  evidence: z.array(z.string()),
  ...trafficFields,
  /** Requests over the edge, from the hooks at the end that saw more, else from spans; null without either. */
  requests: z
    .object({
      /** `http`, `postgres`: the one with the most requests. */
      protocol: z.string(),
      count: z.number(),
      perSecond: z.number(),
      errorRatio: z.number(),
      p50Us: z.number().nullable(),
      p95Us: z.number().nullable(),
      p99Us: z.number().nullable(),
    })
    .nullable(),
});
export type TopologyEdge = z.infer<typeof topologyEdgeSchema>;

/** Output of coral_get_topology. */
export const topologySchema = z.object({
  sinceMs: z.number(),
  /** Ids of the nodes that `service` means; empty when it was not given. */
  matched: z.array(z.string()),
  totals: z.object({ services: z.number(), ingressSources: z.number(), egressDestinations: z.number(), edges: z.number() }),
  nodes: z.array(topologyNodeSchema),
  edges: z.array(topologyEdgeSchema),
});
export type Topology = z.infer<typeof topologySchema>;
