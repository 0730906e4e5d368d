import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { calls, client, listens, server, type WatchedHosts, watchHosts } from "../discovery/watched-hosts.fixture.ts";
import { queryServiceCpu } from "./host/query-service-cpu.ts";
import { queryConnections } from "./query-connections.ts";
import { queryEdgeRed } from "./query-edge-red.ts";
import { queryRed } from "./query-red.ts";

let watched: WatchedHosts;
beforeEach(async () => {
  watched = await watchHosts();
});
afterEach(() => watched[Symbol.asyncDispose]());

const call = ["10.0.1.5:45678", "10.0.2.8:5432"] as const;
const hourMs = 3_600_000;

async function twoHosts(): Promise<void> {
  await watched.scan(
    "node1",
    [calls("api", ["10.0.1.5"])],
    [
      client("api", ...call, { bytes_sent: 100, bytes_received: 900, rtt_us: 300, retransmits: 1 }),
      client("api", "10.0.1.5:45679", "203.0.113.7:443", { bytes_sent: 5, bytes_received: 6 }),
      client("api", "10.0.1.5:45680", "203.0.113.8:443", { state: "failed", refused: 1 }),
    ],
  );
  await watched.scan(
    "node2",
    [listens("postgres", 5432, ["10.0.2.8"])],
    [server("postgres", ...call, { bytes_sent: 900, bytes_received: 100 })],
  );
  await watched.settle();
}

const ask = (more: Partial<Parameters<typeof queryConnections>[1]> = {}) =>
  queryConnections(watched.hosts.store, {
    sinceMs: hourMs,
    nowMs: watched.clock.wallMs(),
    limit: 100,
    database: watched.hosts.store.database.name,
    ...more,
  });

describe("queryConnections()", () => {
  it("returns peers, amounts and failures for each end", async () => {
    await twoHosts();
    // Bytes from before a connection was first seen are not attributed.
    const firstSeen = (watched.clock.wallMs() - 100_000) * 1_000;
    await watched.scan(
      "node1",
      [calls("api", ["10.0.1.5"])],
      [client("api", ...call, { first_seen: firstSeen, bytes_sent: 150, bytes_received: 1_900, rtt_us: 300, retransmits: 3 })],
    );
    await watched.cycle();
    const { rows, total } = await ask();
    expect(total).toBe(4);
    const texts = rows.map(({ service, role, peer, serverPort, open, failed, refused, bytesSent }) =>
      [service, role, peer, serverPort, `open=${open}`, `failed=${failed}`, `refused=${refused}`, bytesSent].join(" "),
    );
    expect(texts.sort()).toEqual([
      "api client 203.0.113.7 443 open=1 failed=0 refused=0 0",
      "api client 203.0.113.8 443 open=0 failed=1 refused=1 0",
      "api client postgres 5432 open=1 failed=0 refused=0 50",
      "postgres server api 5432 open=1 failed=0 refused=0 0",
    ]);
    expect(rows.find(({ peer }) => peer === "postgres")).toMatchObject({
      rttUs: 300,
      retransmits: 2,
      bytesReceived: 1_000,
      peerAddress: "10.0.2.8",
      opened: 0,
    });
  });

  it("counts unattributed connections separately", async () => {
    const outside = "203.0.113.9:443";
    await watched.scan(
      "node1",
      [calls("api", ["10.0.1.5"])],
      [
        client("", "10.0.1.5:45690", outside),
        client("", "10.0.1.5:45691", outside, { state: "failed", refused: 1 }),
        client("api", ...call),
      ],
    );
    await watched.settle();
    expect(await ask()).toMatchObject({ total: 1, unattributed: 2 });
  });

  it("returns all connections of a called service, including those that some callers reported", async () => {
    const many = { state: "closed", connections: 50 } as const;
    const loopback = ["127.0.0.1:0", "127.0.0.1:6379"] as const;
    await watched.scan(
      "node1",
      [calls("api", ["10.0.1.5"]), listens("cache", 6379, ["10.0.1.5"])],
      [
        client("api", ...loopback, { ...many, connections: 20 }),
        client(null, ...loopback, { ...many, connections: 30, first_seen: watched.clock.wallMs() * 1_000 + 1 }),
        server("cache", ...loopback, many),
      ],
    );
    await watched.settle();
    expect((await ask({ service: "cache" })).rows).toMatchObject([{ role: "server", closed: 50 }]);
    expect((await ask({ service: "api" })).rows).toMatchObject([{ role: "client", peer: "cache", closed: 20 }]);
  });

  it("filters by service, peer, role and agents, and applies the limit", async () => {
    await twoHosts();
    expect((await ask({ service: "postgres" })).rows).toMatchObject([{ service: "postgres", peer: "api" }]);
    expect((await ask({ peer: "postgres" })).rows).toMatchObject([{ service: "api" }]);
    expect((await ask({ peer: "203.0.113.7" })).rows).toHaveLength(1);
    expect((await ask({ role: "server" })).rows).toHaveLength(1);
    expect((await ask({ agentIds: ["node2"] })).rows).toMatchObject([{ service: "postgres" }]);
    expect(await ask({ limit: 1 })).toMatchObject({ rows: [{}], total: 4 });
    expect(await ask({ service: "nobody" })).toEqual({ rows: [], total: 0, unattributed: 0 });
  });
});

describe("requests between hosts", () => {
  const request = (more: Record<string, unknown>) => ({
    atMs: watched.clock.wallMs(),
    protocol: "postgres",
    server_port: 5432,
    method: "SELECT",
    route: "SELECT ?",
    requests: 10,
    duration_lo: 100,
    duration_counts: [10],
    ...more,
  });

  it("are one edge with the larger of both counts, and name their ends as connections do", async () => {
    await twoHosts();
    await watched.hosts.add("node1", {
      red: [
        request({ service: "api", role: "client", peer_address: "10.0.2.8" }),
        request({
          service: "api",
          role: "client",
          peer_address: "203.0.113.7",
          server_port: 443,
          protocol: "http",
          peer: "pay.example",
          requests: 3,
        }),
      ],
    });
    await watched.hosts.add("node2", {
      red: [request({ service: "postgres", role: "server", peer_address: "10.0.1.5", requests: 12, is_error: true })],
    });
    const database = watched.hosts.store.database.name;
    const { edges } = await queryEdgeRed(watched.hosts.store, { sinceMs: hourMs, nowMs: watched.clock.wallMs(), database });
    expect(edges).toMatchObject([
      {
        client: { kind: "service", name: "api" },
        server: { kind: "service", name: "postgres" },
        serverPort: 5432,
        role: "server",
        requests: 12,
        errors: 12,
      },
      { client: { kind: "service", name: "api" }, server: { kind: "external", name: "203.0.113.7" }, serverPort: 443, requests: 3 },
    ]);
    const known = (await watched.edges()).edges.map(
      (edge) => `${edge.client.name} ${edge.server.kind} ${edge.server.name} ${edge.serverPort}`,
    );
    for (const { client: from, server: to, serverPort } of edges)
      expect(known).toContain(`${from.name} ${to.kind} ${to.name} ${serverPort}`);
    const peers = await queryRed(watched.hosts.store, {
      ...{ by: "peer", role: "client", sinceMs: hourMs, nowMs: watched.clock.wallMs(), maxPoints: 0, limit: 10, compare: false },
    });
    expect(peers.rows.map(({ peer, requests }) => [peer, requests])).toEqual([
      ["postgres", 10],
      ["pay.example", 3],
    ]);
  });
});

it("queryServiceCpu() sums the processes of a service, including samples before the newest", async () => {
  await twoHosts();
  const atMs = watched.clock.wallMs();
  const sample = { atMs, start_ticks: 1, rss_bytes: 1_000 };
  const idle = { ...sample, pid: 5432, cpu_cores: 0.01, rss_bytes: 7_000 };
  await watched.hosts.add("node2", { hostProcess: [{ ...idle, atMs: atMs - 45_000 }] });
  expect(await queryServiceCpu(watched.hosts.store, { nowMs: atMs })).toEqual([{ service: "postgres", cpuCores: 0.01, rssBytes: 7_000 }]);
  await watched.hosts.add("node2", {
    hostProcess: [
      { ...sample, pid: 5432, cpu_cores: 0.5 },
      { ...sample, pid: 9, cpu_cores: 0.9 },
    ],
  });
  expect(await queryServiceCpu(watched.hosts.store, { nowMs: atMs })).toEqual([{ service: "postgres", cpuCores: 0.5, rssBytes: 1_000 }]);
});
