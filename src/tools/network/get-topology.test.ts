import { describe, expect, it, vi } from "vitest";
import { startCpuClock } from "../../base/cpu-time.fixture.ts";
import type { EdgeFact, ResolvedName } from "../../model/edges.ts";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { agentOf, colonyOf, context, edgeOf, networkOf, serviceOf } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { DependencyList, EndpointList, Topology } from "../schemas/network.ts";
import type { ServiceList } from "../schemas/service.ts";
import { publicOrPrivate } from "./public-or-private.ts";

async function call<T>(name: string, input: unknown, colony: Partial<ColonyBackend> = {}): Promise<Answer<T>> {
  return (await findTool(colonyTools, name, "read").call(colonyOf(colony), input, context)) as Answer<T>;
}

const messages = (answer: Answer<unknown>): string[] => answer.completeness.notes.map((note) => note.message);
const sampled = "connections that open and close between two scans are not seen";

/** An edge to or from a named external address. */
function named(edge: EdgeFact, name: string, more: Partial<ResolvedName> = {}): EdgeFact {
  const resolved = { name, method: "reverse_dns", provider: null, product: null, ...more };
  const outside = edge.class === "INGRESS" ? "client" : "server";
  return { ...edge, [outside]: { ...edge[outside], resolved } };
}

const s3 = { provider: "AWS", product: "S3", method: "provider_range" };

describe("coral_list_services", () => {
  const services = async () => [
    serviceOf("web-1", "api", 8080, { pids: [1, 2], instances: 2, ingress: true }),
    serviceOf("web-2", "api", 8080, { pids: [], instances: 1, status: "managed", confidence: 1, health: "unhealthy", egress: true }),
    serviceOf("web-2", "sshd", 22, { aliases: ["shell.internal", "openssh"] }),
    serviceOf("web-2", "worker", null, { egress: true, lastSeenAt: new Date(Date.now() + 60_000).toISOString() }),
    serviceOf("web-1", "old", 9, { status: "stale" }),
    serviceOf("forgotten", "ghost", 1),
  ];

  it("merges the instances of all agents into one service, with the most confident name and the worst health", async () => {
    const agents = async () => [agentOf("web-1"), agentOf("web-2", { health: "degraded" })];
    const answer = await call<ServiceList>("coral_list_services", {}, { services, agents });
    expect(answer).toMatchObject({ total: 4, managed: 1, discovered: 2, stale: 1 });
    expect(answer.services.map((service) => service.service)).toEqual(["api", "old", "sshd", "worker"]);
    expect(answer.services[0]).toMatchObject({
      status: "managed",
      confidence: 1,
      instances: 3,
      ports: [{ port: 8080, protocol: "tcp" }],
      ingress: true,
      egress: true,
      health: "degraded",
      check: "unhealthy",
      agents: [
        { hostname: "web-1.example.org", status: "discovered", pids: [1, 2], ports: [{ port: 8080, method: "listening_socket" }] },
        { hostname: "web-2.example.org", status: "managed", pids: [] },
      ],
    });
    expect(answer.services[3]).toMatchObject({ ports: [], method: "connection_tracking" });
    expect(answer.completeness.notes).toMatchObject([{ kind: "agent-silent", agent: "web-2" }]);
  });

  it("filters by name, host, status, method, class and age, and truncates", async () => {
    const list = async (input: object): Promise<string[]> =>
      (await call<ServiceList>("coral_list_services", input, { services })).services.map((service) => service.service);
    expect(await list({ match: "SSH" })).toEqual(["sshd"]);
    expect(await list({ match: "OpenSSH" })).toEqual(["sshd"]);
    expect(await list({ match: "shell" })).toEqual([]);
    expect(await list({ agent: "web-1" })).toEqual(["api", "old"]);
    expect(await list({ status: "stale" })).toEqual(["old"]);
    expect(await list({ method: "connection_tracking" })).toEqual(["worker"]);
    expect(await list({ class: "ingress" })).toEqual(["api"]);
    expect(await list({ class: "egress" })).toEqual(["api", "worker"]);
    expect(await list({ since: "1h" })).toEqual(["worker"]);
    expect(messages(await call("coral_list_services", { limit: 1 }, { services }))).toEqual([
      "1 of 4 services are shown; narrow with match or agent, or raise limit",
    ]);
    await expect(call("coral_list_services", { agent: "nobody" }, { services })).rejects.toThrow('Cannot find agent "nobody"');
  });

  it("reads processes only on request, and bounds them", async () => {
    const process = { pid: 1, startedAt: null, exe: null, build: null, buildKind: null, commandLine: null, user: null, unit: null };
    const processes = Array.from({ length: 30 }, (_, pid) => ({
      ...process,
      pid,
      containerId: null,
      containerName: null,
      listens: [],
      health: null,
      healthDetail: null,
    }));
    const asked = vi.fn<ColonyBackend["services"]>(async (request) => [
      serviceOf("web-1", "api", 80, request.processes ? { processes } : {}),
    ]);
    const plain = await call<ServiceList>("coral_list_services", {}, { services: asked });
    expect(plain.services[0]?.agents[0]?.processes).toBeUndefined();
    const full = await call<ServiceList>("coral_list_services", { service: "api", processes: true }, { services: asked });
    expect(asked).toHaveBeenLastCalledWith({ service: "api", processes: true }, context);
    expect(full.services[0]?.agents[0]?.processes).toHaveLength(20);
    expect(messages(full)).toEqual(["20 of 30 processes of api on web-1.example.org are shown; query them all with SQL"]);
  });
});

describe("coral_get_ingress and coral_get_egress", () => {
  const edges = async () =>
    networkOf([
      named(edgeOf("api", "external:52.94.236.248", 443, { connections: 127, firstBuild: "b1" }), "s3.amazonaws.com", s3),
      edgeOf("api", "external:10.9.9.9", 5432, { connections: 3, confidence: 0.7 }),
      named(edgeOf("external:203.0.113.42", "api", 8080, { connections: 1_245 }), "lb-prod.example.com"),
      edgeOf("external:*", "api", 8080, { connections: 7 }),
      edgeOf("api", "db", 5432),
      edgeOf("coral", "external:198.51.100.1", 443),
    ]);

  it("list pairs of service and external address, busiest first", async () => {
    const ingress = await call<EndpointList>("coral_get_ingress", {}, { edges });
    expect(ingress.endpoints).toMatchObject([
      {
        service: "api",
        address: "203.0.113.42",
        port: null,
        servicePort: 8080,
        name: "lb-prod.example.com",
        scope: "public",
        connections: 1_245,
      },
      { service: "api", address: "*", name: null, scope: "public", connections: 7 },
    ]);
    const egress = await call<EndpointList>("coral_get_egress", {}, { edges });
    expect(egress.endpoints).toMatchObject([
      { service: "api", address: "52.94.236.248", port: 443, servicePort: null, provider: "AWS", product: "S3", firstBuild: "b1" },
      { service: "api", address: "10.9.9.9", port: 5432, scope: "private", confidence: 0.7 },
    ]);
    expect(egress.endpoints[0]?.agents).toEqual(["web-1.example.org"]);
    expect(messages(egress)).toEqual([sampled]);
  });

  it("exclude Coral's own traffic unless requested", async () => {
    expect((await call<EndpointList>("coral_get_egress", { coral: true }, { edges })).total).toBe(3);
    expect((await call<EndpointList>("coral_get_egress", { service: "coral" }, { edges })).total).toBe(3);
  });

  it("pass the filters on, and note truncated, skipped, unsettled and lost rows", async () => {
    const facts = { skippedConnections: 5, skippedAgentIds: ["web-2"], unsettledConnections: 2, cutEdges: 4 };
    const asked = vi.fn<ColonyBackend["edges"]>(async () => ({ ...(await edges()), ...facts }));
    const losses = vi.fn<ColonyBackend["losses"]>(async () => []);
    const answer = await call<EndpointList>(
      "coral_get_egress",
      { service: "api", agent: "web-1", since: "2h", limit: 1 },
      { edges: asked, losses },
    );
    expect(asked).toHaveBeenCalledWith({ sinceMs: 7_200_000, agentIds: ["web-1"], service: "api" }, context);
    expect(losses).toHaveBeenCalledWith({ sinceMs: 7_200_000, agentIds: ["web-1"], signals: ["connection", "service_instance"] }, context);
    expect(answer.completeness.notes.map((note) => [note.kind, note.rows])).toEqual([
      ["sampled", undefined],
      ["unattributed", 5],
      ["sampled", 2],
      ["limit", undefined],
      ["limit", undefined],
    ]);
    expect(messages(answer)[4]).toBe("1 of 2 endpoints are shown; narrow with service or agent, or raise limit");
  });

  it("explain how to start without agents", async () => {
    const answer = await call("coral_get_ingress", {}, { agents: async () => [] });
    expect(messages(answer)).toEqual(["no agent has joined this colony; start one with coral agent start"]);
  });
});

describe("coral_get_external_dependencies", () => {
  const edges = async () =>
    networkOf([
      named(edgeOf("api", "external:52.94.0.1", 443, { connections: 10, opened: 10, firstBuild: "b2" }), "s3-1.example", s3),
      named(edgeOf("worker", "external:52.94.0.2", 443, { connections: 30, firstBuild: "b1" }), "s3-2.example", s3),
      named(edgeOf("worker", "external:13.107.42.14", 443, { connections: 5 }), "api.stripe.com"),
      edgeOf("worker", "external:10.1.2.3", 6379, { connections: 1 }),
      edgeOf("external:1.2.3.4", "api", 80),
    ]);

  it("groups the addresses of one product, with its callers", async () => {
    const { dependencies } = await call<DependencyList>("coral_get_external_dependencies", {}, { edges });
    expect(dependencies.map((one) => [one.name, one.connections, one.addressCount])).toEqual([
      ["AWS S3", 40, 2],
      ["api.stripe.com", 5, 1],
      ["10.1.2.3", 1, 1],
    ]);
    expect(dependencies[0]?.services).toMatchObject([
      { service: "worker", connections: 30, firstBuild: "b1" },
      { service: "api", connections: 10, firstBuild: "b2" },
    ]);
    expect(dependencies[0]).toMatchObject({ scope: "public", ports: [443], bytesToServer: 200, rttUs: 200 });
    expect(dependencies[2]).toMatchObject({ scope: "private" });
  });

  it("finds by name, provider, product and address", async () => {
    const names = async (match: string): Promise<string[]> =>
      (await call<DependencyList>("coral_get_external_dependencies", { match }, { edges })).dependencies.map((one) => one.name);
    expect(await names("S3")).toEqual(["AWS S3"]);
    expect(await names("aws")).toEqual(["AWS S3"]);
    expect(await names("stripe")).toEqual(["api.stripe.com"]);
    expect(await names("10.1.2.3")).toEqual(["10.1.2.3"]);
    expect(await names("10.1.2")).toEqual([]);
  });
});

describe("coral_get_topology", () => {
  const edges = async () =>
    networkOf([
      named(edgeOf("external:203.0.113.42", "frontend", 3000, { connections: 50 }), "lb-prod.example.com"),
      edgeOf("frontend", "api", 8080, { connections: 45, opened: 45 }),
      edgeOf("api", "worker", 9000),
      edgeOf("api", "db", 5432, { confidence: 0.7, evidence: ["client-end", "address-registry"] }),
      edgeOf("api", "db", 5432, { connections: 4, evidence: ["both-ends"] }),
      edgeOf("worker", "api", 8080),
      edgeOf("api", "api", 8080),
      edgeOf("host:web-2", "db", 5432),
      named(edgeOf("worker", "external:52.94.0.1", 443), "s3-1.example", s3),
    ]);
  const ask = (input: object): Promise<Answer<Topology>> => call<Topology>("coral_get_topology", input, { edges });
  const names = (answer: Topology): string[] => answer.nodes.map((node) => `${node.distance} ${node.relation} ${node.name}`);

  it("shows every node and edge, and merges edges with the same ends", async () => {
    const answer = await ask({});
    expect(answer.totals).toEqual({ services: 4, ingressSources: 1, egressDestinations: 1, edges: 8 });
    expect(answer.matched).toEqual([]);
    expect(answer.nodes.find((node) => node.kind === "host")).toMatchObject({
      id: "host:web-2",
      name: "web-2.example.org",
      distance: null,
    });
    expect(answer.edges.find((edge) => edge.from === "service:api" && edge.to === "service:db")).toMatchObject({
      port: 5432,
      class: "INTERNAL",
      confidence: 0.9,
      evidence: ["address-registry", "both-ends", "client-end"],
      connections: 5,
    });
  });

  it("finds the transitive dependents of an external service", async () => {
    const answer = await ask({ service: "s3", direction: "dependents" });
    expect(answer.matched).toEqual(["external:AWS S3"]);
    expect(names(answer)).toEqual([
      "0 asked AWS S3",
      "1 dependent worker",
      "2 dependent api",
      "3 dependent frontend",
      "4 dependent lb-prod.example.com",
    ]);
  });

  it("walks dependencies, stops at cycles and respects the depth", async () => {
    expect(names(await ask({ service: "worker", direction: "dependencies" }))).toEqual([
      "0 asked worker",
      "1 dependency api",
      "1 dependency AWS S3",
      "2 dependency db",
    ]);
    expect(names(await ask({ service: "API", depth: 1 }))).toEqual([
      "0 asked api",
      "1 dependent frontend",
      "1 dependency db",
      "1 both worker",
    ]);
  });

  it("does not walk through hosts and external addresses, which stand for unknown programs", async () => {
    const unknown = async () =>
      networkOf([
        edgeOf("host:web-2", "postgres", 5432),
        edgeOf("probe", "host:web-2", 9),
        edgeOf("api", "postgres", 5432),
        edgeOf("api", "external:10.9.9.9", 443),
        edgeOf("external:10.9.9.9", "billing", 80),
      ]);
    const asked = (input: object): Promise<Topology> => call<Topology>("coral_get_topology", input, { edges: unknown });
    expect(names(await asked({ service: "postgres", direction: "dependents" }))).toEqual([
      "0 asked postgres",
      "1 dependent web-2.example.org",
      "1 dependent api",
    ]);
    expect(names(await asked({ service: "api", direction: "dependencies" }))).toEqual([
      "0 asked api",
      "1 dependency 10.9.9.9",
      "1 dependency postgres",
    ]);
    // As the selected node it is a start of the walk.
    expect(names(await asked({ service: "10.9.9.9", direction: "dependencies" }))).toEqual(["0 asked 10.9.9.9", "1 dependency billing"]);
  });

  it("does not count a connection attempt that always failed as a dependency", async () => {
    const failed = { connections: 0, openConnections: 0, opened: 0, failures: 12 };
    const dialled = async () =>
      networkOf([
        edgeOf("dialer", "postgres", 5432, failed),
        edgeOf("cron", "dialer", 80),
        edgeOf("api", "postgres", 5432, { connections: 3, failures: 1 }),
        edgeOf("web", "api", 80, failed),
      ]);
    const answer = await call<Topology>("coral_get_topology", { service: "postgres", direction: "dependents" }, { edges: dialled });
    expect(names(answer)).toEqual(["0 asked postgres", "1 dependent api", "1 attempt dialer"]);
    expect(answer.edges.find(({ from }) => from === "service:dialer")).toMatchObject({ connections: 0, failures: 12 });
  });

  it("finds busy services by part of a name, idle ones by the full name", async () => {
    expect((await ask({ service: "front", depth: 1 })).matched).toEqual(["service:frontend"]);
    const services = async () => [serviceOf("web-1", "cron", null)];
    const quiet = await call<Topology>("coral_get_topology", { service: "Cron" }, { edges, services });
    expect(quiet.nodes).toMatchObject([{ id: "service:cron", name: "cron", distance: 0, agents: ["web-1.example.org"] }]);
    await expect(ask({ service: "nobody" })).rejects.toThrow('Cannot find "nobody" in the topology');
  });

  it("keeps the busiest nodes when there are too many, and filters by class", async () => {
    const answer = await ask({ limit: 2 });
    expect(answer.nodes.map((node) => node.name)).toEqual(["frontend", "api"]);
    expect(messages(answer)).toContain("2 of 7 nodes are shown; select one service, or raise limit");
    expect((await ask({ class: "EGRESS" })).edges).toMatchObject([{ from: "service:worker", to: "external:AWS S3" }]);
  });

  it("computes rates over the time that the figures cover", async () => {
    const covered = async () =>
      networkOf([edgeOf("a", "b", 1, { opened: 30, bytesToServer: 500, bytesToClient: 500 })], { windowMs: 600_000 });
    const answer = await call<Topology>("coral_get_topology", {}, { edges: covered });
    expect(answer.edges[0]).toMatchObject({ connectionsPerMinute: 3, bytesPerMinute: 100 });
  });

  it("notes agents that scan for connections, not those with kernel events", async () => {
    const listens = { capabilities: [{ name: "connections", available: true, reason: "" }] };
    const notesWith = async (agents: ReturnType<typeof agentOf>[]): Promise<string[]> =>
      messages(await call<Topology>("coral_get_topology", {}, { agents: async () => agents, edges: async () => networkOf([]) }));
    expect(await notesWith([agentOf("web-1", listens), agentOf("web-2", listens)])).toEqual([]);
    const [note] = await notesWith([agentOf("web-1", listens), agentOf("web-2")]);
    expect(note).toMatch(new RegExp(`^${sampled} on \\S+$`));
  });

  it("truncates edges but keeps some of every class", async () => {
    const inside = Array.from({ length: 50 }, (_, index) => edgeOf(`a${index}`, `b${index}`, 80, { connections: 1_000 }));
    const outside = Array.from({ length: 2 }, (_, index) => edgeOf(`a${index}`, "c", 443, { class: "EGRESS", connections: 1 }));
    const answer = await call<Topology>("coral_get_topology", { edges: 10 }, { edges: async () => networkOf([...inside, ...outside]) });
    const classes = answer.edges.map((edge) => edge.class);
    expect(classes).toEqual([...Array.from({ length: 8 }, () => "INTERNAL"), "EGRESS", "EGRESS"]);
    expect(answer.completeness.notes.map(({ message }) => message).join()).toContain("10 of 52 edges");
    const more = Array.from({ length: 300 }, (_, index) => edgeOf(`a${index}`, `b${index}`, 80));
    const unasked = await call<Topology>("coral_get_topology", { limit: 10_000 }, { edges: async () => networkOf(more) });
    expect(unasked.edges).toHaveLength(200);
  });

  it("walks 5,000 services quickly", async () => {
    const many = Array.from({ length: 20_000 }, (_, index) => edgeOf(`s${index % 5_000}`, `s${(index * 7 + 1) % 5_000}`, 80));
    const cpuMs = startCpuClock();
    const answer = await call<Topology>("coral_get_topology", { limit: 10_000, edges: 20_000 }, { edges: async () => networkOf(many) });
    expect(answer.nodes).toHaveLength(5_000);
    expect(cpuMs()).toBeLessThan(5_000);
  });
});

describe("publicOrPrivate()", () => {
  it.each([
    ["10.0.0.1", "private"],
    ["172.16.0.1", "private"],
    ["172.32.0.1", "public"],
    ["192.168.1.1", "private"],
    ["100.64.0.1", "private"],
    ["100.128.0.1", "public"],
    ["127.0.0.1", "private"],
    ["203.0.113.42", "public"],
    ["8.8.8.8", "public"],
    ["::1", "private"],
    ["fd00::1", "private"],
    ["fe80::1", "private"],
    ["2600::1", "public"],
    ["::ffff:10.0.0.1", "private"],
    ["*", "public"],
  ])("%s is %s", (address, scope) => {
    expect(publicOrPrivate(address)).toBe(scope);
  });
});
