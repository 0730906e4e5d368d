import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { storeEndpointNames } from "./endpoint-resolution.ts";
import { calls, client, listens, server, type WatchedHosts, watchHosts } from "./watched-hosts.fixture.ts";

let watched: WatchedHosts;
beforeEach(async () => {
  watched = await watchHosts();
});
afterEach(() => watched[Symbol.asyncDispose]());

const api = [calls("api", ["10.0.1.5"])];
const postgres = [listens("postgres", 5432, ["10.0.2.8"])];
const call = ["10.0.1.5:45678", "10.0.2.8:5432"] as const;
const outside = {
  name: "d111111abcdef8.cloudfront.net",
  method: "reverse_dns",
  provider: null,
  product: null,
  region: null,
  confidence: 0.9,
};
const nameOf = (address: string): Promise<void> => {
  const nowMs = watched.clock.wallMs();
  return storeEndpointNames(watched.hosts.store, [{ address, ...outside, resolvedAtMs: nowMs, expiresAtMs: nowMs + 3_600_000 }]);
};

describe("two ends of one connection", () => {
  it("become one INTERNAL edge with confidence 0.9", async () => {
    await watched.scan("node1", api, [client("api", ...call, { bytes_sent: 100, bytes_received: 900, rtt_us: 300, retransmits: 1 })]);
    watched.clock.pass(1_000);
    await watched.scan("node2", postgres, [
      server("postgres", ...call, { bytes_sent: 900, bytes_received: 100, rtt_us: 500, retransmits: 2 }),
    ]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9"]);
    expect((await watched.edges()).edges).toMatchObject([
      {
        evidence: ["both-ends"],
        connections: 1,
        openConnections: 1,
        rttUs: 400,
        client: { kind: "service", agentIds: ["node1"], addresses: ["10.0.1.5"] },
        server: { kind: "service", agentIds: ["node2"], addresses: ["10.0.2.8"] },
      },
    ]);
    expect(await watched.hosts.store.query("SELECT source_service, dest_service, class, confidence, merged FROM connections")).toEqual([
      { source_service: "api", dest_service: "postgres", class: "INTERNAL", confidence: 0.9, merged: true },
    ]);
  });

  it("are paired when the second is reported minutes later and the first is still open", async () => {
    await watched.scan("node1", api, [client("api", ...call)]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["api -> external(10.0.2.8):5432 EGRESS 0.5"]);
    await watched.scan("node2", postgres, [server("postgres", ...call)]);
    await watched.settle();
    // Earlier rows are interpreted with what is known now.
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9"]);
  });

  it("may differ in clock by up to the correlation window", async () => {
    const ended = (atMs: number) => ({ state: "closed", first_seen: atMs * 1_000, last_seen: (atMs + 1_000) * 1_000 });
    const nowMs = watched.clock.wallMs() - 60_000;
    const [near, far] = [
      ["10.0.1.5:1000", "10.0.2.8:5432"],
      ["10.0.1.5:2000", "10.0.2.8:5432"],
    ] as const;
    await watched.scan(
      "node1",
      [calls("api", ["10.0.1.5"]), calls("cron", ["10.0.1.5"], { pid: 78 })],
      [client("api", ...near, ended(nowMs)), client("cron", ...far, ended(nowMs))],
    );
    await watched.scan("node2", postgres, [
      server("postgres", ...near, ended(nowMs + 5_500)),
      server("postgres", ...far, ended(nowMs + 7_000)),
    ]);
    await watched.cycle();
    const paired = await watched.hosts.store.query("SELECT client_port, pairing FROM net.connection_sides ORDER BY client_port, role");
    // The close ones were paired, so they were flushed at once.
    expect(paired).toEqual([
      { client_port: 2000, pairing: "" },
      { client_port: 2000, pairing: "" },
    ]);
  });

  it("with a wider window pair across larger clock differences", async () => {
    watched.settings.correlationWindowMs = 60_000;
    const nowUs = (watched.clock.wallMs() - 120_000) * 1_000;
    await watched.scan("node1", api, [client("api", ...call, { state: "closed", first_seen: nowUs, last_seen: nowUs })]);
    const later = nowUs + 50_000_000;
    await watched.scan("node2", postgres, [server("postgres", ...call, { state: "closed", first_seen: later, last_seen: later })]);
    await watched.settle();
    expect((await watched.edges()).edges).toMatchObject([{ evidence: ["both-ends"], connections: 1, openConnections: 0 }]);
  });

  it("of a reused port are paired by time", async () => {
    const first = (watched.clock.wallMs() - 60_000) * 1_000;
    const again = (watched.clock.wallMs() - 10_000) * 1_000;
    await watched.scan(
      "node1",
      [...api, calls("worker", ["10.0.1.5"], { pid: 5 })],
      [
        client("api", ...call, { state: "closed", first_seen: first, last_seen: first + 10_000_000 }),
        client("worker", ...call, { first_seen: again, last_seen: again }),
      ],
    );
    await watched.scan(
      "node2",
      [...postgres, listens("pgbouncer", 5432, ["10.0.2.8"])],
      [
        server("postgres", ...call, { state: "closed", first_seen: first, last_seen: first + 10_000_000 }),
        server("pgbouncer", ...call, { first_seen: again, last_seen: again }),
      ],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9", "worker -> pgbouncer:5432 INTERNAL 0.9"]);
  });

  it("on one host are paired by their address there", async () => {
    const own = ["10.0.1.5:40000", "10.0.1.5:6379"] as const;
    await watched.scan("node1", [...api, listens("redis", 6379, ["10.0.1.5"])], [client("api", ...own), server("redis", ...own)]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> redis:6379 INTERNAL 0.9"]);
  });

  it("on loopback are paired within one agent and network namespace only", async () => {
    const loop = ["127.0.0.1:40000", "127.0.0.1:6379"] as const;
    const redis = [listens("redis", 6379, [], { address: "127.0.0.1" })];
    await watched.scan("node1", [...api, ...redis], [client("api", ...loop, { netns: 1 }), server("redis", ...loop, { netns: 1 })]);
    await watched.scan("node2", [calls("web", ["10.0.2.8"])], [client("web", ...loop, { netns: 1 })]);
    await watched.scan(
      "node3",
      [...redis, calls("job", ["10.0.3.1"], { netns: 2 })],
      [server("redis", ...loop, { netns: 1 }), client("job", ...loop, { netns: 2 })],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual([
      "api -> redis:6379 INTERNAL 0.9",
      "host(node3) -> redis:6379 INTERNAL 0.7",
      "job -> host(node3):6379 INTERNAL 0.7",
      "web -> host(node2):6379 INTERNAL 0.7",
    ]);
  });

  it("of many folded short connections are reported once, by their callers", async () => {
    const many = { state: "closed", connections: 50 } as const;
    const from = "10.0.1.5:0";
    await watched.scan(
      "node1",
      [calls("api", ["10.0.1.5"]), calls("worker", ["10.0.1.5"], { pid: 78 }), listens("cache", 6379, ["10.0.1.5"])],
      [
        client("api", from, "10.0.2.8:5432", many),
        client("worker", from, "10.0.2.8:5432", { ...many, first_seen: watched.clock.wallMs() * 1_000 + 1 }),
        client("api", "127.0.0.1:0", "127.0.0.1:6379", many),
        server("cache", "127.0.0.1:0", "127.0.0.1:6379", many),
      ],
    );
    await watched.scan("node2", postgres, [server("postgres", from, "10.0.2.8:5432", { ...many, connections: 100 })]);
    const expected = ["api -> cache:6379 INTERNAL 0.7", "api -> postgres:5432 INTERNAL 0.7", "worker -> postgres:5432 INTERNAL 0.7"];
    await watched.cycle();
    expect(await watched.summary()).toEqual(expected);
    await watched.settle();
    expect(await watched.summary()).toEqual(expected);
    expect((await watched.edges()).edges.map(({ connections }) => connections)).toEqual([50, 50, 50]);
  });

  it("of a process that is named one scan later keep their earlier amounts", async () => {
    await watched.scan("node1", api);
    await watched.scan("node2", postgres);
    await watched.cycle();
    watched.clock.pass(30_000);
    const firstSeen = watched.clock.wallMs() * 1_000;
    const long = { first_seen: firstSeen, bytes_sent: 100 };
    const many = { state: "closed", connections: 10, bytes_sent: 1_000 } as const;
    await watched.scan("node1", api, [client(null, ...call, long), client("api", "10.0.1.5:0", "10.0.2.8:5432", many)]);
    await watched.scan("node2", postgres, [server("postgres", ...call, { first_seen: firstSeen, bytes_received: 100 })]);
    await watched.cycle();
    watched.clock.pass(1_000);
    await watched.scan("node1", api, [client("api", ...call, { ...long, state: "closed" })]);
    await watched.cycle();
    await watched.settle();
    expect((await watched.edges()).edges).toMatchObject([{ connections: 11, bytesToServer: 1_100 }]);
  });

  it("of UDP are paired with each other, and never with TCP", async () => {
    const dns = ["10.0.1.5:40000", "10.0.2.8:53"] as const;
    await watched.scan("node1", api, [client("api", ...dns, { protocol: "udp" }), client("api", ...dns)]);
    await watched.scan(
      "node2",
      [listens("unbound", 53, ["10.0.2.8"], { protocol: "udp" })],
      [server("unbound", ...dns, { protocol: "udp" })],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> host(node2):53 INTERNAL 0.7", "api -> unbound:53/udp INTERNAL 0.9"]);
  });

  it("that are ambiguous are distinguished by port", async () => {
    await watched.scan("node1", api, [client("api", "10.0.1.5:40000", "10.0.2.8:5000", { role: "peer", protocol: "udp" })]);
    await watched.scan(
      "node2",
      [listens("statsd", 5000, ["10.0.2.8"], { protocol: "udp" })],
      [client("statsd", "10.0.2.8:5000", "10.0.1.5:40000", { role: "peer", protocol: "udp", bytes_received: 7 })],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> statsd:5000/udp INTERNAL 0.9"]);
  });

  it("may write IPv4 differently", async () => {
    await watched.scan("node1", api, [client("api", "::ffff:10.0.1.5:45678", "::FFFF:10.0.2.8:5432")]);
    await watched.scan("node2", postgres, [server("postgres", ...call)]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9"]);
  });

  it("over IPv6 are paired too", async () => {
    const six = ["2001:db8::5:45678", "2001:db8::8:5432"] as const;
    await watched.scan("node1", [calls("api", ["2001:db8::5"])], [client("api", ...six)]);
    await watched.scan("node2", [listens("postgres", 5432, ["2001:db8::8"])], [server("postgres", ...six)]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9"]);
  });
});

describe("address translation", () => {
  it("of the source gives 0.7 at each side: the called address is known, the caller is not", async () => {
    await watched.scan("node1", api, [client("api", ...call)]);
    await watched.scan("node2", postgres, [server("postgres", "10.99.0.1:12345", "10.0.2.8:5432")]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.7", "external(10.99.0.1) -> postgres:5432 INGRESS 0.7"]);
    expect((await watched.edges({ service: "api" })).edges[0]?.evidence).toEqual(["client-end", "address-registry"]);
  });

  it("of both addresses gives EGRESS 0.7 and INGRESS 0.7", async () => {
    await watched.scan("node1", api, [client("api", "10.0.1.5:45678", "203.0.113.9:5432")]);
    await watched.scan("node2", postgres, [server("postgres", "10.99.0.1:12345", "10.0.2.8:5432")]);
    await watched.settle();
    expect(await watched.summary()).toEqual([
      "api -> external(203.0.113.9):5432 EGRESS 0.7",
      "external(10.99.0.1) -> postgres:5432 INGRESS 0.7",
    ]);
  });

  it("of the source's port only leads to the only service on that host that calls the same server", async () => {
    await watched.scan("node1", [...api, listens("sshd", 22, ["10.0.1.5"])], [client("api", "172.17.0.2:45678", "10.0.2.8:5432")]);
    await watched.scan("node2", postgres, [server("postgres", "10.0.1.5:61000", "10.0.2.8:5432")]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.7"]);
    expect((await watched.edges()).edges[0]).toMatchObject({ connections: 1, evidence: ["client-end", "server-end", "address-registry"] });
  });

  it("of the called address is resolved when the caller's is unchanged", async () => {
    // A published port or a cluster address: the client calls 10.96.0.10:80, and a container on another host serves it on 10.244.2.7:8080.
    await watched.scan("node1", [calls("web", ["10.244.1.3"])], [client("web", "10.244.1.3:50000", "10.96.0.10:80")]);
    await watched.scan("node2", [listens("api", 8080, ["10.244.2.7"])], [server("api", "10.244.1.3:50000", "10.244.2.7:8080")]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["web -> api:8080 INTERNAL 0.9"]);
    expect((await watched.edges()).edges[0]?.evidence).toEqual(["both-ends", "translated"]);
  });

  it("is not guessed when there are two candidates", async () => {
    await watched.scan(
      "node1",
      [calls("web", ["10.244.1.3"])],
      [client("web", "10.244.1.3:50000", "10.96.0.10:80"), client("web", "10.244.1.3:50000", "10.96.0.11:80")],
    );
    await watched.scan("node2", [listens("api", 8080, ["10.244.2.7"])], [server("api", "10.244.1.3:50000", "10.244.2.7:8080")]);
    await watched.cycle();
    expect(await watched.summary()).toEqual([
      "web -> api:8080 INTERNAL 0.7",
      "web -> external(10.96.0.10):80 EGRESS 0.7",
      "web -> external(10.96.0.11):80 EGRESS 0.7",
    ]);
  });
});

describe("intermediaries", () => {
  it("a load balancer without an agent is transparent: its clients are INGRESS", async () => {
    await watched.scan("node1", [listens("api", 8080, ["172.17.0.5"])], [server("api", "1.2.3.4:50000", "172.17.0.5:8080")]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["external(1.2.3.4) -> api:8080 INGRESS 0.5"]);
  });

  it("a load balancer with an agent is a service in the chain", async () => {
    const lb = [listens("nginx", 80, ["10.0.0.2"])];
    await watched.scan("node1", api, [client("api", "10.0.1.5:1000", "10.0.0.2:80")]);
    await watched.scan("lb", lb, [server("nginx", "10.0.1.5:1000", "10.0.0.2:80"), client("nginx", "10.0.0.2:2000", "10.0.2.8:8080")]);
    await watched.scan("node2", [listens("web", 8080, ["10.0.2.8"])], [server("web", "10.0.0.2:2000", "10.0.2.8:8080")]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> nginx:80 INTERNAL 0.9", "nginx -> web:8080 INTERNAL 0.9"]);
  });

  it("a load balancer's backends are one edge with the addresses of all of them", async () => {
    const backends = ["10.0.2.8", "10.0.2.9"];
    const outgoing = backends.map((address, index) => client("nginx", `10.0.0.2:${2_000 + index}`, `${address}:8080`));
    await watched.scan("lb", [listens("nginx", 80, ["10.0.0.2"])], outgoing);
    for (const [index, address] of backends.entries()) {
      const accepted = server("web", `10.0.0.2:${2_000 + index}`, `${address}:8080`);
      await watched.scan(`node${index}`, [listens("web", 8080, [address])], [accepted]);
    }
    await watched.cycle();
    expect((await watched.edges()).edges).toMatchObject([
      { client: { name: "nginx", addresses: ["10.0.0.2"] }, server: { name: "web", addresses: backends, agentIds: ["node0", "node1"] } },
    ]);
    const { page } = await watched.edges({ page: { nodes: 10, edges: 10 } });
    expect(page?.nodes.find(({ name }) => name === "web")?.addresses).toEqual(backends);
  });

  it("a NAT gateway towards the outside is transparent: EGRESS to the called address", async () => {
    await watched.scan("node1", [calls("api", ["172.17.0.5"])], [client("api", "172.17.0.5:45678", "54.230.1.1:443")]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["api -> external(54.230.1.1):443 EGRESS 0.5"]);
  });

  it("a service that calls itself through a load balancer is a self edge", async () => {
    const hairpin = ["172.17.0.5:45678", "203.0.113.42:80"] as const;
    await watched.scan("node1", [listens("api", 8080, ["172.17.0.5"])], [client("api", ...hairpin), server("api", ...hairpin)]);
    // And through its own published address, whose server end looks different.
    await watched.scan("node2", [listens("web", 8080, ["10.0.2.8"])], [client("web", "10.0.2.8:45678", "10.0.2.8:8080")]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> api:80 INTERNAL 0.9", "web -> web:8080 INTERNAL 0.7"]);
  });

  it("an Envoy sidecar that preserves addresses: INTERNAL between the services, with its address", async () => {
    const through = ["172.17.0.5:45678", "127.0.0.1:15001"] as const;
    await watched.scan(
      "node1",
      [calls("frontend", ["172.17.0.5"]), listens("api", 8080, ["172.17.0.5"])],
      [client("frontend", ...through), server("api", ...through)],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual(["frontend -> api:15001 INTERNAL 0.9"]);
    expect((await watched.edges()).edges[0]?.server.addresses).toEqual(["127.0.0.1"]);
  });

  it("an Envoy sidecar that terminates calls is a service in the chain", async () => {
    // iptables REDIRECT: the caller's socket still shows the original destination.
    await watched.scan(
      "node1",
      [calls("frontend", ["10.244.1.3"]), listens("envoy", 15001, ["10.244.1.3"])],
      [
        client("frontend", "10.244.1.3:45678", "10.96.0.10:80"),
        server("envoy", "10.244.1.3:45678", "127.0.0.1:15001"),
        client("envoy", "10.244.1.3:45999", "10.244.2.7:8080"),
      ],
    );
    await watched.scan("node2", [listens("api", 8080, ["10.244.2.7"])], [server("api", "10.244.1.3:45999", "10.244.2.7:8080")]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["envoy -> api:8080 INTERNAL 0.9", "frontend -> envoy:15001 INTERNAL 0.9"]);
    expect((await watched.edges({ service: "frontend" })).edges[0]?.evidence).toEqual(["both-ends", "redirected"]);
  });
});

describe("addresses that repeat on every host", () => {
  const inside = ["172.17.0.2:40000", "172.17.0.3:5432"] as const;
  const containers = [calls("api", ["172.17.0.2"], { netns: 2 }), listens("postgres", 5432, ["172.17.0.3"], { netns: 3 })];

  it("pair within their host", async () => {
    for (const agent of ["node1", "node2"]) {
      const own =
        agent === "node1" ? containers : [calls("web", ["172.17.0.2"], { netns: 2 }), listens("mysql", 5432, ["172.17.0.3"], { netns: 3 })];
      const [caller, called] = agent === "node1" ? ["api", "postgres"] : ["web", "mysql"];
      await watched.scan(agent, own, [client(caller ?? "", ...inside, { netns: 2 }), server(called ?? "", ...inside, { netns: 3 })]);
    }
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9", "web -> mysql:5432 INTERNAL 0.9"]);
  });

  it("never pair across hosts that share them", async () => {
    await watched.scan("node1", containers, [client("api", ...inside, { netns: 2 })]);
    await watched.scan(
      "node2",
      [calls("web", ["172.17.0.2"], { netns: 2 }), listens("mysql", 5432, ["172.17.0.3"], { netns: 3 })],
      [server("mysql", ...inside, { netns: 3 })],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.7", "web -> mysql:5432 INTERNAL 0.7"]);
  });

  it("separate a caller from a container on the same host behind the bridge", async () => {
    await watched.scan(
      "node1",
      [calls("api", ["172.17.0.2"], { netns: 2 }), listens("postgres", 5432, ["10.0.1.5", "172.17.0.1"], { netns: 1 })],
      [
        client("api", "172.17.0.2:40000", "172.17.0.1:5432", { netns: 2 }),
        server("postgres", "172.17.0.2:40000", "172.17.0.1:5432", { netns: 1 }),
      ],
    );
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9"]);
  });
});

describe("the outside", () => {
  it("is 0.9 when it is named, 0.5 with one agent, 0.7 when other agents saw nothing", async () => {
    await nameOf("54.230.1.1");
    await watched.scan("node1", api, [
      client("api", "10.0.1.5:1", "54.230.1.1:443"),
      client("api", "10.0.1.5:2", "198.51.100.7:443"),
      client("api", "10.0.1.5:3", "10.7.7.7:443"),
    ]);
    await nameOf("10.7.7.7");
    await watched.settle();
    const named = "api -> external(54.230.1.1):443 EGRESS 0.9";
    expect(await watched.summary()).toEqual([
      "api -> external(10.7.7.7):443 EGRESS 0.5",
      "api -> external(198.51.100.7):443 EGRESS 0.5",
      named,
    ]);
    await watched.scan("node2", postgres);
    await watched.cycle();
    // A name alone does not prove that a private address is external.
    expect(await watched.summary()).toEqual([
      "api -> external(10.7.7.7):443 EGRESS 0.7",
      "api -> external(198.51.100.7):443 EGRESS 0.7",
      named,
    ]);
    const edge = (await watched.edges()).edges.find(({ server: end }) => end.name === "54.230.1.1");
    expect(edge).toMatchObject({
      evidence: ["client-end", "named-outside"],
      server: { resolved: { name: outside.name } },
      firstBuild: "api-build-1",
    });
  });

  it("that calls in is INGRESS with the same confidences", async () => {
    await watched.scan("node1", [listens("web", 80, ["10.0.1.5"])], [server("web", "203.0.113.42:999", "10.0.1.5:80")]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["external(203.0.113.42) -> web:80 INGRESS 0.5"]);
    await nameOf("203.0.113.42");
    expect(await watched.summary()).toEqual(["external(203.0.113.42) -> web:80 INGRESS 0.9"]);
  });

  it("does not include addresses of an agent's host, even if the process was not seen", async () => {
    await watched.scan("node1", [...api, calls("cron", ["10.0.1.5"], { pid: 3 })]);
    await watched.scan("node2", postgres, [server("postgres", ...call)]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["host(node1) -> postgres:5432 INTERNAL 0.7"]);
  });
});

describe("ends without a service", () => {
  it("are skipped and counted when neither has one", async () => {
    await watched.scan("node1", api, [
      client(null, "10.0.1.5:1", "10.9.9.9:80"),
      client(null, "10.0.1.5:2", "10.9.9.8:80", { state: "closed" }),
    ]);
    await watched.cycle();
    expect(await watched.edges()).toMatchObject({ edges: [], skippedConnections: 2, skippedAgentIds: ["node1"] });
    watched.clock.pass(100_000);
    await watched.cycle();
    expect(await watched.edges()).toMatchObject({ edges: [], skippedConnections: 2 });
  });

  it("count as INTERNAL with their host when only one has a service", async () => {
    await watched.scan("node1", [calls("other", ["10.0.1.6"])], [client(null, ...call)]);
    await watched.scan("node2", postgres, [server("postgres", ...call)]);
    await watched.settle();
    expect(await watched.summary()).toEqual(["host(node1) -> postgres:5432 INTERNAL 0.7"]);
    expect((await watched.edges()).skippedConnections).toBe(0);
  });

  it("are named later than they are paired", async () => {
    await watched.scan("node1", api, [client(null, ...call)]);
    await watched.scan("node2", postgres, [server("postgres", ...call)]);
    await watched.cycle();
    watched.clock.pass(1_000);
    const began = (watched.clock.wallMs() - 1_000) * 1_000;
    await watched.scan("node1", api, [client("api", ...call, { first_seen: began })]);
    await watched.cycle();
    expect(await watched.summary()).toEqual(["api -> postgres:5432 INTERNAL 0.9"]);
  });
});
