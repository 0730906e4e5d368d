import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { queryEvents } from "../queries/query-events.ts";
import { addressesWithoutName, loadEndpointNames, storeEndpointNames } from "./endpoint-resolution.ts";
import { storeNamingLimits } from "./naming-limits.ts";
import { calls, client, type InstanceValues, listens, server, type WatchedHosts, watchHosts } from "./watched-hosts.fixture.ts";

const sinceEver = { nowMs: 0, sinceMs: 0 };

let watched: WatchedHosts;
beforeEach(async () => {
  watched = await watchHosts();
});
afterEach(() => watched[Symbol.asyncDispose]());

const postgres = (more: InstanceValues = {}): InstanceValues => listens("postgres", 5432, ["10.0.2.8"], more);

/** `count` times: one scan of each agent and a cycle, 30 s apart. */
async function scans(count: number, agents: Record<string, InstanceValues[]>): Promise<void> {
  for (let scan = 0; scan < count; scan++) {
    for (const [agent, instances] of Object.entries(agents)) await watched.scan(agent, instances);
    await watched.cycle();
    watched.clock.pass(30_000);
  }
}

const registry = (): Promise<Record<string, unknown>[]> =>
  watched.hosts.store.query(
    "SELECT service, agent_id, port, status, method, previous_method, instances FROM services ORDER BY service, agent_id, port",
  );
const statuses = async (): Promise<string[]> => (await registry()).map((row) => `${String(row["service"])} ${String(row["status"])}`);
const kinds = async (): Promise<string[]> => (await watched.events()).map(({ kind, message }) => `${kind}: ${message}`);

describe("the service registry", () => {
  it("has one entry per service, agent and port, with the number of instances", async () => {
    const nginx = [1, 2, 3].map((pid) => listens("nginx", 80, ["10.0.1.5"], { pid }));
    await scans(2, {
      node1: [...nginx, listens("nginx", 443, ["10.0.1.5"], { pid: 1 }), calls("worker", ["10.0.1.5"])],
      node2: [nginx[0] ?? {}],
    });
    expect(await registry()).toEqual([
      {
        service: "nginx",
        agent_id: "node1",
        port: 80,
        status: "discovered",
        method: "listening_socket",
        previous_method: null,
        instances: 3,
      },
      {
        service: "nginx",
        agent_id: "node1",
        port: 443,
        status: "discovered",
        method: "listening_socket",
        previous_method: null,
        instances: 1,
      },
      {
        service: "nginx",
        agent_id: "node2",
        port: 80,
        status: "discovered",
        method: "listening_socket",
        previous_method: null,
        instances: 1,
      },
      {
        service: "worker",
        agent_id: "node1",
        port: null,
        status: "discovered",
        method: "connection_tracking",
        previous_method: null,
        instances: 1,
      },
    ]);
  });

  it("promotes what was connected by hand, and keeps how it was found", async () => {
    await scans(3, { node2: [postgres()] });
    await scans(2, { node2: [postgres({ managed: true, method: "manual", confidence: 1, health: "healthy" })] });
    expect(await registry()).toMatchObject([
      { service: "postgres", status: "managed", method: "manual", previous_method: "listening_socket" },
    ]);
    expect((await watched.events()).at(-1)).toEqual({
      kind: "service-promoted",
      message: "Service postgres on port 5432 is managed now; it was discovered via listening_socket",
      details: { service: "postgres", port: 5432, previousMethod: "listening_socket", previousName: null, by: "manual" },
    });
    // coral disconnect
    await scans(2, { node2: [postgres()] });
    expect(await registry()).toMatchObject([{ status: "discovered", method: "listening_socket", previous_method: null }]);
  });

  it("counts no instance for a connected service without a listener", async () => {
    const absent = { managed: true, method: "manual", confidence: 1, pid: null, start_ticks: null, address: null, addresses: null };
    await scans(2, { node2: [postgres(absent)] });
    expect(await registry()).toMatchObject([{ service: "postgres", status: "managed", instances: 0 }]);
    // A process listens that the agent lacks permission to inspect.
    await scans(2, { node2: [postgres({ managed: true, method: "manual", confidence: 1, pid: null, start_ticks: null })] });
    expect(await registry()).toMatchObject([{ service: "postgres", status: "managed", instances: 1 }]);
  });

  it("replaces a guessed name with the one given by hand", async () => {
    await scans(3, { node2: [listens("unknown-5432", 5432, [], { pid: 9 })] });
    await scans(3, { node2: [listens("orders-db", 5432, [], { pid: 9, managed: true, method: "manual" })] });
    expect(await registry()).toMatchObject([{ service: "orders-db", status: "managed", previous_method: "listening_socket" }]);
    expect((await watched.events()).at(-1)?.details).toMatchObject({ previousName: "unknown-5432" });
  });

  it("separates two services that share a port in different containers", async () => {
    await scans(3, {
      node1: [listens("a", 8080, ["172.17.0.2"], { netns: 2, pid: 2 }), listens("b", 8080, ["172.17.0.3"], { netns: 3, pid: 3 })],
    });
    expect(await statuses()).toEqual(["a discovered", "b discovered"]);
    await scans(3, { node1: [listens("b", 8080, ["172.17.0.3"], { netns: 3, pid: 3 })] });
    expect(await statuses()).toEqual(["a discovered", "b discovered"]);
  });

  it("promotes by rule if configured, after the configured time", async () => {
    watched.settings.autoPromotion = { enabled: true, minConfidence: 0.9, minObservationTimeMs: 300_000 };
    const sure = postgres({ confidence: 0.95, method: "kubernetes_api" });
    await scans(4, { node2: [sure, listens("guess", 99, [], { confidence: 0.3 })] });
    expect(await statuses()).toEqual(["guess discovered", "postgres discovered"]);
    watched.clock.pass(300_000);
    await scans(2, { node2: [sure, listens("guess", 99, [], { confidence: 0.3 })] });
    expect(await registry()).toMatchObject([
      { service: "guess", status: "discovered" },
      { service: "postgres", status: "managed", method: "kubernetes_api", previous_method: "kubernetes_api" },
    ]);
    expect((await watched.events()).at(-1)).toMatchObject({ kind: "service-promoted", details: { service: "postgres", by: "rule" } });
    // Manual connection has precedence, also afterwards.
    await scans(2, { node2: [{ ...sure, managed: true, method: "manual" }] });
    expect((await registry()).find((row) => row["service"] === "postgres")).toMatchObject({
      method: "manual",
      previous_method: "kubernetes_api",
    });
  });

  it("marks services stale after an hour, and deletes them after thirty days", async () => {
    await scans(3, { node1: [postgres(), listens("redis", 6379, [])], node2: [listens("silent", 1, [])] });
    await scans(2, { node1: [listens("redis", 6379, [])] });
    expect(await statuses()).toEqual(["postgres discovered", "redis discovered", "silent discovered"]);
    watched.clock.pass(61 * 60_000);
    await scans(1, { node1: [listens("redis", 6379, [])] });
    expect(await statuses()).toEqual(["postgres stale", "redis discovered", "silent stale"]);
    expect((await kinds()).filter((line) => line.startsWith("service-stale"))).toEqual([
      "service-stale: Service postgres was not seen for 1 h",
      "service-stale: Service silent was not seen for 1 h",
    ]);
    await scans(1, { node2: [listens("silent", 1, [])] });
    expect(await statuses()).toEqual(["postgres stale", "redis discovered", "silent discovered"]);
    expect(await kinds()).toContain("service-returned: Service silent is back");
    watched.clock.pass(20 * 86_400_000);
    await scans(1, { node1: [listens("redis", 6379, [])] });
    expect(await statuses()).toEqual(["postgres stale", "redis discovered", "silent stale"]);
    watched.clock.pass(11 * 86_400_000);
    await scans(1, { node1: [listens("redis", 6379, [])] });
    expect(await statuses()).toEqual(["redis discovered"]);
  });

  it("uses the newest instance for pid, executable, build and health", async () => {
    await scans(2, { node2: [postgres({ pid: 10, started: 1_000_000, exe: "/old", build: "b1" })] });
    await scans(3, {
      node2: [postgres({ pid: 20, started: 2_000_000, exe: "/new", build: "b2", health: "unhealthy", health_detail: "timeout" })],
    });
    expect(await watched.hosts.store.query("SELECT pid, exe, build, health, health_detail FROM services")).toEqual([
      { pid: 20, exe: "/new", build: "b2", health: "unhealthy", health_detail: "timeout" },
    ]);
    expect(await watched.hosts.store.query("SELECT pid FROM service_instances")).toEqual([{ pid: 20 }]);
  });

  it("accepts scans split over pulls, and clocks that go back", async () => {
    await scans(2, { node1: [postgres(), listens("redis", 6379, [])] });
    // The second half of a scan arrives with the next pull.
    await watched.scan("node1", [postgres()]);
    await watched.cycle();
    await watched.scan("node1", [listens("redis", 6379, [])]);
    await watched.cycle();
    expect(await watched.hosts.store.query("SELECT service FROM service_instances ORDER BY service")).toEqual([
      { service: "postgres" },
      { service: "redis" },
    ]);
    watched.clock.step(-3_600_000);
    await scans(3, { node1: [postgres()] });
    expect(await watched.hosts.store.query("SELECT service FROM service_instances")).toEqual([{ service: "postgres" }]);
  });

  it("is unchanged after a restart", async () => {
    await scans(3, { node1: [postgres()], node2: [listens("redis", 6379, [])] });
    const before = [await registry(), await watched.events()];
    await watched.reopen();
    await watched.cycle();
    await scans(1, { node1: [postgres()], node2: [listens("redis", 6379, [])] });
    expect([await registry(), await watched.events()]).toEqual(before);
  });
});

describe("events of services", () => {
  it("summarise a new agent, then name each new service", async () => {
    await scans(2, { node1: [postgres(), listens("redis", 6379, [])] });
    await scans(2, { node1: [postgres(), listens("redis", 6379, []), listens("nginx", 80, [])] });
    await scans(1, { node2: [postgres()] });
    expect(await kinds()).toEqual([
      "service-discovered: 2 services were found on a new agent: postgres, redis",
      "service-discovered: Service nginx was found on port 80 via listening_socket",
    ]);
  });

  it("are ordered by time together with those of agents, and filtered by service, kind, agent and age", async () => {
    await scans(3, { node1: [postgres()] });
    const atMs = watched.clock.wallMs();
    await watched.hosts.add("node1", {
      event: [
        {
          atMs: atMs - 10_000,
          kind: "service-restarted",
          severity: "warning",
          service: "postgres",
          pid: 7,
          message: "restarted",
          details: '{"before":1}',
        },
        { atMs: atMs - 5_000, kind: "binary-updated", severity: "sudden", service: "redis", message: "updated", details: "no json" },
      ],
    });
    await scans(1, { node1: [postgres(), listens("nginx", 80, [])] });
    const ask = async (query: object): Promise<string[]> =>
      (await queryEvents(watched.hosts.store, { ...sinceEver, limit: 100, ...query })).map((event) => `${event.kind} ${event.service}`);
    expect(await ask({})).toEqual([
      "service-discovered nginx",
      "binary-updated redis",
      "service-restarted postgres",
      "service-discovered null",
    ]);
    // A summary concerns each service that it names.
    expect(await ask({ service: "postgres" })).toEqual(["service-restarted postgres", "service-discovered null"]);
    expect(await ask({ kind: "service-discovered", limit: 1 })).toEqual(["service-discovered nginx"]);
    expect(await ask({ agentIds: ["node2"] })).toEqual([]);
    expect(await ask({ agentIds: [] })).toEqual([]);
    expect(await ask({ nowMs: atMs, sinceMs: 6_000 })).toEqual(["service-discovered nginx", "binary-updated redis"]);
    const events = await queryEvents(watched.hosts.store, { ...sinceEver, limit: 3 });
    expect(events.map(({ severity, details }) => [severity, details])).toMatchObject([
      ["info", { service: "nginx" }],
      ["info", { value: "no json" }],
      ["warning", { before: 1 }],
    ]);
  });
});

describe("events about external endpoints", () => {
  const api = (build: string): InstanceValues[] => [
    calls("api", ["10.0.1.5"], { build, pid: 7 }),
    listens("web", 80, ["10.0.1.5"], { pid: 8, build: "w1" }),
  ];
  const to = (address: string, port: number) => client("api", `10.0.1.5:${port}`, address, { pid: 7, start_ticks: 1, state: "closed" });
  const name = (address: string, more: object = {}) => ({
    address,
    name: `${address}.example.com`,
    method: "reverse_dns",
    provider: null,
    product: null,
    region: null,
    confidence: 0.9,
    resolvedAtMs: watched.clock.wallMs(),
    expiresAtMs: watched.clock.wallMs() + 3_600_000,
    ...more,
  });
  const news = async (): Promise<string[]> => (await kinds()).filter((line) => /^(?:egress|ingress)-new/.test(line));

  it("are suppressed for a new agent, then report new endpoints with the build that used them first", async () => {
    await watched.scan("node1", api("b1"), [to("203.0.113.1:443", 1)]);
    await watched.cycle();
    watched.clock.pass(30_000);
    await watched.scan("node1", api("b1"), [to("203.0.113.2:443", 2), server("web", "198.51.100.1:9", "10.0.1.5:80", { state: "closed" })]);
    await watched.settle();
    expect(await news()).toEqual([]);
    await watched.scan("node1", api("b2"), [
      to("203.0.113.1:443", 3),
      to("203.0.113.3:443", 4),
      server("web", "198.51.100.2:9", "10.0.1.5:80", { pid: 8, start_ticks: 1, state: "closed" }),
    ]);
    await watched.settle();
    expect(await news()).toEqual([
      "egress-new: Service api calls 203.0.113.3 (203.0.113.3:443) for the first time, with build b2",
      "ingress-new: Service web is called by 198.51.100.2 on port 80 for the first time, with build w1",
    ]);
    expect((await watched.events()).find((event) => event.kind === "egress-new")?.details).toEqual({
      service: "api",
      name: "203.0.113.3",
      address: "203.0.113.3",
      port: 443,
      build: "b2",
    });
    await watched.scan("node1", api("b3"), [to("203.0.113.3:443", 5)]);
    await watched.settle();
    expect(await news()).toHaveLength(2);
    expect(await watched.hosts.store.query("SELECT first_build, connections FROM endpoints WHERE address = '203.0.113.3'")).toEqual([
      { first_build: "b2", connections: 2 },
    ]);
    expect((await queryEvents(watched.hosts.store, { ...sinceEver, limit: 9, service: "api", kind: "egress-new" }))[0]?.severity).toBe(
      "warning",
    );
  });

  it("get the build also if it becomes known later", async () => {
    const unknown = (): InstanceValues[] => api("b1").map((instance) => ({ ...instance, build: null }));
    await scans(3, { node1: unknown() });
    await watched.scan("node1", unknown(), [{ ...to("203.0.113.3:443", 4), state: "open" }, to("203.0.113.4:443", 5)]);
    await watched.settle();
    expect(await news()).toEqual([
      "egress-new: Service api calls 203.0.113.3 (203.0.113.3:443) for the first time",
      "egress-new: Service api calls 203.0.113.4 (203.0.113.4:443) for the first time",
    ]);
    await watched.scan("node1", api("b1"));
    await watched.cycle();
    expect(await news()).toEqual([
      "egress-new: Service api calls 203.0.113.3 (203.0.113.3:443) for the first time, with build b1",
      "egress-new: Service api calls 203.0.113.4 (203.0.113.4:443) for the first time, with build b1",
    ]);
    expect((await watched.events()).filter(({ kind }) => kind === "egress-new").map(({ details }) => details["build"])).toEqual([
      "b1",
      "b1",
    ]);
    expect(await watched.hosts.store.query("SELECT DISTINCT first_build FROM endpoints")).toEqual([{ first_build: "b1" }]);
    // Another build does not replace it.
    await watched.scan("node1", api("b2"));
    await watched.cycle();
    expect(await watched.hosts.store.query("SELECT DISTINCT first_build FROM endpoints")).toEqual([{ first_build: "b1" }]);
  });

  it("are one per name, however many addresses it has", async () => {
    await scans(3, { node1: api("b1") });
    const s3 = { name: "AWS S3 (eu-west-1)", provider: "AWS", product: "S3", method: "provider_range" };
    await storeEndpointNames(watched.hosts.store, [
      name("52.94.0.1", s3),
      name("52.94.0.2", s3),
      name("52.94.0.3", s3),
      name("203.0.113.9"),
    ]);
    await watched.scan("node1", api("b1"), [to("52.94.0.1:443", 1), to("52.94.0.2:443", 2), to("203.0.113.9:443", 3)]);
    await watched.settle();
    await watched.scan("node1", api("b1"), [to("52.94.0.3:443", 4)]);
    await watched.settle();
    expect(await news()).toEqual([
      "egress-new: Service api calls 203.0.113.9.example.com (203.0.113.9:443) for the first time, with build b1",
      "egress-new: Service api calls AWS S3 (52.94.0.1:443) for the first time, with build b1",
    ]);
  });

  it("are not created for connections whose peer is known, or becomes known", async () => {
    await scans(3, { node1: api("b1"), node2: [postgres()] });
    const call = ["10.0.1.5:40000", "10.0.2.8:5432"] as const;
    await watched.scan("node1", api("b1"), [client("api", ...call)]);
    await watched.cycle();
    watched.clock.pass(20_000);
    await watched.scan("node2", [postgres()], [server("postgres", ...call)]);
    await watched.settle();
    expect(await news()).toEqual([]);
    expect(await watched.hosts.store.query("SELECT * FROM endpoints")).toEqual([]);
  });

  it("are created as soon as every agent has scanned again", async () => {
    await scans(3, { node1: api("b1"), node2: [postgres()] });
    await watched.scan("node1", api("b1"), [to("203.0.113.3:443", 4)]);
    await watched.cycle();
    expect(await news()).toEqual([]);
    watched.clock.pass(20_000);
    await scans(1, { node1: api("b1"), node2: [postgres()] });
    expect(await news()).toHaveLength(1);
  });

  it("remove an endpoint that turns out to be a host with an agent", async () => {
    await scans(3, { node1: api("b1") });
    await watched.scan("node1", api("b1"), [client("api", "10.0.1.5:1", "10.0.2.8:5432")]);
    await watched.settle();
    expect(await watched.hosts.store.query("SELECT service, address FROM endpoints")).toEqual([{ service: "api", address: "10.0.2.8" }]);
    await scans(3, { node2: [postgres()] });
    expect(await watched.hosts.store.query("SELECT service, address FROM endpoints")).toEqual([]);
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.7"]);
  });
});

describe("names of external addresses", () => {
  it("are requested once, until they expire", async () => {
    const store = watched.hosts.store;
    await watched.scan(
      "node1",
      [calls("api", ["10.0.1.5"])],
      [
        client("api", "10.0.1.5:1", "203.0.113.1:443"),
        client("api", "10.0.1.5:2", "10.0.1.5:80"),
        client("api", "127.0.0.1:3", "127.0.0.1:80"),
        client(null, "10.0.1.5:4", "203.0.113.2:443"),
      ],
    );
    await watched.cycle();
    const nowMs = watched.clock.wallMs();
    expect(await addressesWithoutName(store, nowMs)).toEqual([{ address: "203.0.113.1", limits: null }]);
    const row = { address: "203.0.113.1", method: null, provider: null, product: null, region: null, confidence: 0, resolvedAtMs: nowMs };
    await storeEndpointNames(store, [{ ...row, name: null, expiresAtMs: nowMs + 1_000 }]);
    expect(await addressesWithoutName(store, nowMs)).toEqual([]);
    expect(await addressesWithoutName(store, nowMs + 2_000)).toEqual([{ address: "203.0.113.1", limits: null }]);
    await storeEndpointNames(store, [{ ...row, name: "a.example.com", method: "reverse_dns", expiresAtMs: nowMs + 9_000 }]);
    expect(await loadEndpointNames(store)).toMatchObject([{ address: "203.0.113.1", name: "a.example.com", expiresAtMs: nowMs + 9_000 }]);
  });

  it("are requested within the limits of the agents that see them", async () => {
    const store = watched.hosts.store;
    const sees = (agent: string, own: string, ...others: string[]) =>
      watched.scan(
        agent,
        [calls("api", [own])],
        others.map((other, index) => client("api", `${own}:${index + 1}`, `${other}:443`)),
      );
    const wishes = async (): Promise<Record<string, unknown>> =>
      Object.fromEntries((await addressesWithoutName(store, watched.clock.wallMs())).map(({ address, limits }) => [address, limits]));
    await storeNamingLimits(store, "shy", { reverseDns: false, providerRanges: true, maxCacheMs: 60_000 });
    await storeNamingLimits(store, "plain", { reverseDns: true, providerRanges: false, maxCacheMs: null });
    await sees("shy", "10.0.1.5", "203.0.113.1", "203.0.113.2", "203.0.113.3");
    await sees("plain", "10.0.1.6", "203.0.113.2", "203.0.113.4");
    await sees("open", "10.0.1.7", "203.0.113.3", "203.0.113.5");
    await watched.cycle();
    const expected = {
      "203.0.113.1": { reverseDns: false, providerRanges: true, maxCacheMs: 60_000 },
      "203.0.113.2": { reverseDns: true, providerRanges: true, maxCacheMs: 60_000 },
      "203.0.113.3": { reverseDns: true, providerRanges: true, maxCacheMs: 60_000 },
      "203.0.113.4": { reverseDns: true, providerRanges: false, maxCacheMs: null },
      "203.0.113.5": null,
    };
    expect(await wishes()).toEqual(expected);
    // Also if the connections are gone and only the endpoints remain.
    for (const [agent, own] of [
      ["shy", "10.0.1.5"],
      ["plain", "10.0.1.6"],
      ["open", "10.0.1.7"],
    ] as const)
      await watched.scan(agent, [calls("api", [own])]);
    await watched.settle();
    expect(await wishes()).toEqual(expected);
    await watched.reopen();
    expect(await addressesWithoutName(watched.hosts.store, watched.clock.wallMs())).toHaveLength(5);
    // A name resolved before an agent set limits is deleted.
    const nowMs = watched.clock.wallMs();
    const named = {
      method: "reverse_dns",
      provider: null,
      product: null,
      region: null,
      confidence: 1,
      resolvedAtMs: nowMs,
      expiresAtMs: nowMs + 9_000,
    };
    await storeEndpointNames(watched.hosts.store, [{ address: "203.0.113.5", name: "five.example.com", ...named }]);
    await storeNamingLimits(watched.hosts.store, "open", { reverseDns: false, providerRanges: false, maxCacheMs: null });
    expect(await loadEndpointNames(watched.hosts.store)).toEqual([]);
    await storeNamingLimits(watched.hosts.store, "open", null);
    expect((await addressesWithoutName(watched.hosts.store, nowMs)).find(({ address }) => address === "203.0.113.5")?.limits).toBe(null);
  });
});
