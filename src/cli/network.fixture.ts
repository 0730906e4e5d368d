/** Sample answers about services and connections, the example of docs/services.md. */

import type { ServiceProcess } from "../model/services.ts";
import type { EndpointUse, Service, ServiceList, Topology, TopologyEdge, TopologyNode } from "../tools/index.ts";

const firstSeenAt = (): string => new Date(Date.now() - 3 * 86_400_000).toISOString();
const lastSeenAt = (): string => new Date(Date.now() - 12_000).toISOString();
/** Computed per call, because ages are printed. */
const seen = (): { firstSeenAt: string; lastSeenAt: string } => ({ firstSeenAt: firstSeenAt(), lastSeenAt: lastSeenAt() });

type Place = Service["agents"][number];

export function servicePlace(change: Partial<Place> & { port?: number | null; method?: string } = {}): Place {
  const { port = 8080, method = "listening_socket", ...rest } = change;
  const status = change.status ?? (method === "manual" ? "managed" : "discovered");
  return {
    agentId: "agent-a",
    hostname: "hostname-api",
    health: "healthy",
    status,
    check: null,
    instances: 1,
    pids: [101],
    exe: "/app/api",
    build: "0123456789abcdef0123",
    addresses: ["0.0.0.0:8080"],
    ports: [{ port, protocol: port === null ? null : "tcp", status, method, previousMethod: null, confidence: 0.8, ...seen() }],
    ingress: false,
    egress: false,
    sampledAt: lastSeenAt(),
    ...rest,
  };
}

export function serviceOf(name: string, places: Place[], change: Partial<Service> = {}): Service {
  const [first] = places;
  return {
    service: name,
    status: places.some((place) => place.status === "managed") ? "managed" : "discovered",
    method: first?.ports[0]?.method ?? "listening_socket",
    previousMethod: null,
    id: "unit:api",
    origin: null,
    aliases: [],
    namedBy: "systemd-unit",
    confidence: 0.85,
    instances: places.reduce((sum, place) => sum + place.instances, 0),
    ports: places.flatMap((place) =>
      place.ports.flatMap(({ port, protocol }) => (port === null || protocol === null ? [] : [{ port, protocol }])),
    ),
    ingress: places.some((place) => place.ingress),
    egress: places.some((place) => place.egress),
    health: "healthy",
    check: null,
    ...seen(),
    agents: places,
    ...change,
  };
}

export function serviceList(services: Service[]): ServiceList {
  const count = (status: Service["status"]): number => services.filter((service) => service.status === status).length;
  return { total: services.length, managed: count("managed"), discovered: count("discovered"), stale: count("stale"), services };
}

/** Six services on six hosts. */
export function sampleServices(): Service[] {
  const place = (hostname: string, port: number | null, method: string, ingress: boolean, egress: boolean): Place =>
    servicePlace({ agentId: `id-${hostname}`, hostname, port, method, ingress, egress });
  return [
    serviceOf("api", [place("hostname-api", 8080, "manual", true, true)]),
    serviceOf("frontend", [place("hostname-web", 3000, "manual", true, false)]),
    serviceOf("postgres", [place("hostname-db", 5432, "listening_socket", false, false)]),
    serviceOf("redis", [place("hostname-cache", 6379, "listening_socket", false, false)]),
    serviceOf("worker", [place("hostname-worker", null, "traffic_inspection", false, true)]),
    serviceOf("prometheus", [place("hostname-mon", 9090, "listening_socket", true, false)]),
  ];
}

export function serviceProcess(change: Partial<ServiceProcess> = {}): ServiceProcess {
  return {
    pid: 101,
    startedAt: firstSeenAt(),
    exe: "/app/api",
    build: "0123456789abcdef0123",
    buildKind: "build-id",
    commandLine: "/app/api --token [redacted]",
    user: "www-data",
    unit: "api.service",
    containerId: null,
    containerName: null,
    listens: ["tcp 0.0.0.0:8080"],
    health: "healthy",
    healthDetail: "HTTP 200 of /health",
    ...change,
  };
}

const traffic = () => ({
  connections: 10,
  openConnections: 0,
  connectionsPerMinute: 0,
  failures: 0,
  bytesToServer: 2_048,
  bytesToClient: 1024 ** 2,
  bytesPerMinute: 1_024,
  rttUs: 1_250,
  retransmits: 3,
  ...seen(),
});

export function endpointUse(change: Partial<EndpointUse> = {}): EndpointUse {
  return {
    service: "api",
    agents: ["hostname-api"],
    address: "203.0.113.42",
    port: null,
    servicePort: 8080,
    protocol: "tcp",
    scope: "public",
    name: null,
    nameMethod: null,
    provider: null,
    product: null,
    class: "INGRESS",
    confidence: 0.9,
    firstBuild: null,
    ...traffic(),
    ...change,
  };
}

export function topologyNode(kind: TopologyNode["kind"], name: string, change: Partial<TopologyNode> = {}): TopologyNode {
  return {
    id: `${kind}:${name}`,
    kind,
    name,
    addresses: [],
    agents: [],
    agentCount: 1,
    provider: null,
    product: null,
    distance: null,
    relation: null,
    ...change,
  };
}

export function topologyEdge(from: string, to: string, change: Partial<TopologyEdge> = {}): TopologyEdge {
  return {
    from,
    to,
    protocol: "tcp",
    port: 80,
    class: "INTERNAL",
    confidence: 0.9,
    evidence: ["both-ends"],
    ...traffic(),
    requests: null,
    ...change,
  };
}

/** Ingress through a load balancer, three services, two destinations outside. */
export function sampleTopology(): Topology {
  const nodes = [
    topologyNode("external", "lb-prod.example.com", { addresses: ["203.0.113.42"] }),
    topologyNode("service", "frontend", { addresses: ["127.0.0.1", "10.100.0.7"] }),
    topologyNode("service", "api", { addresses: ["10.100.0.5"] }),
    topologyNode("service", "postgres", { addresses: ["10.100.0.8"] }),
    topologyNode("external", "s3.amazonaws.com", { addresses: ["52.94.236.248", "52.94.236.249"], provider: "AWS", product: "S3" }),
    topologyNode("external", "2001:db8::1", { addresses: ["2001:db8::1"] }),
  ];
  const edges = [
    topologyEdge("external:lb-prod.example.com", "service:frontend", {
      class: "INGRESS",
      port: 80,
      connections: 5_678,
      connectionsPerMinute: 5_678,
    }),
    topologyEdge("external:lb-prod.example.com", "service:api", {
      class: "INGRESS",
      port: 8080,
      connections: 1_245,
      connectionsPerMinute: 1_245.4,
      confidence: 0.7,
    }),
    topologyEdge("service:frontend", "service:api", { port: 80, connections: 45, connectionsPerMinute: 45 }),
    topologyEdge("service:api", "service:postgres", { port: 5432, connections: 12, openConnections: 12 }),
    topologyEdge("service:api", "external:s3.amazonaws.com", { class: "EGRESS", port: 443, connections: 127, connectionsPerMinute: 2.12 }),
    topologyEdge("service:api", "external:2001:db8::1", { class: "EGRESS", port: 9000, connections: 1, confidence: 0.5 }),
  ];
  return {
    sinceMs: 3_600_000,
    matched: [],
    totals: { services: 3, ingressSources: 1, egressDestinations: 2, edges: edges.length },
    nodes,
    edges,
  };
}
