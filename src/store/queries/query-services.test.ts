import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, client, listens, server, type WatchedHosts, watchHosts } from "../discovery/watched-hosts.fixture.ts";
import { queryServices } from "./query-services.ts";

let watched: WatchedHosts;

beforeAll(async () => {
  watched = await watchHosts();
  const api = { exe: "/usr/bin/node", command_line: "node api.js", user_id: 7, started: Date.UTC(2025, 11, 31) * 1_000 };
  const instances = [
    listens("api", 8080, ["10.0.0.1"], { ...api, pid: 11 }),
    listens("api", 8080, ["10.0.0.1"], {
      ...api,
      pid: 12,
      build: "api-build-2",
      named_by: "systemd-unit",
      confidence: 0.85,
      user_name: "www",
    }),
    listens("api", 9090, ["10.0.0.1"], { ...api, pid: 11, address: "::1" }),
    listens("hidden", 22, ["10.0.0.1"], { pid: null, start_ticks: null, named_by: "port", confidence: 0 }),
  ];
  const connections = [server("api", "203.0.113.5:1000", "10.0.0.1:8080"), client("api", "10.0.0.1:1001", "198.51.100.1:443")];
  for (let scan = 0; scan < 3; scan++) {
    await watched.scan("web-1", instances, scan === 0 ? connections : []);
    await watched.scan("web-2", [
      listens("api", 8080, [], { managed: true, health: "unhealthy", health_detail: "refused", pid: 7 }),
      calls("worker", []),
    ]);
    await watched.cycle();
    watched.clock.pass(30_000);
  }
  await watched.settle();
});

afterAll(() => watched[Symbol.asyncDispose]());

describe("queryServices()", () => {
  it("returns each service at each agent, with its ports and instances", async () => {
    const rows = await queryServices(watched.hosts.store);
    expect(
      rows.map((row) => [row.service, row.agentId, row.ports.map(({ port }) => port), row.instances, row.pids, row.addresses]),
    ).toEqual([
      ["api", "web-1", [8080, 9090], 2, [11, 12], ["0.0.0.0:8080", "[::1]:9090"]],
      ["api", "web-2", [8080], 1, [7], ["0.0.0.0:8080"]],
      ["hidden", "web-1", [22], 1, [], ["0.0.0.0:22"]],
      ["worker", "web-2", [null], 1, [77], []],
    ]);
    expect(rows[0]).toMatchObject({
      namedBy: "systemd-unit",
      confidence: 0.85,
      status: "discovered",
      ingress: true,
      egress: true,
      health: null,
    });
    expect(rows[1]).toMatchObject({
      status: "managed",
      health: "unhealthy",
      ingress: false,
      ports: [{ method: "manual", previousMethod: null }],
    });
    expect(rows[3]?.ports).toMatchObject([{ port: null, protocol: null, method: "connection_tracking" }]);
    expect(rows.every((row) => row.processes === undefined)).toBe(true);
  });

  it("returns one service with its processes when requested", async () => {
    const rows = await queryServices(watched.hosts.store, { service: "api", processes: true });
    expect(rows.map((row) => row.agentId)).toEqual(["web-1", "web-2"]);
    expect(rows[0]?.processes).toEqual([
      {
        pid: 11,
        startedAt: "2025-12-31T00:00:00.000Z",
        exe: "/usr/bin/node",
        build: "api-build-1",
        buildKind: null,
        commandLine: "node api.js",
        user: "7",
        unit: null,
        containerId: null,
        containerName: null,
        listens: ["tcp 0.0.0.0:8080", "tcp [::1]:9090"],
        health: null,
        healthDetail: null,
      },
      expect.objectContaining({ pid: 12, build: "api-build-2", user: "www" }),
    ]);
    expect(rows[1]?.processes).toMatchObject([{ pid: 7, health: "unhealthy", healthDetail: "refused" }]);
  });

  it("omits ports that a running service no longer listens on", async () => {
    for (let round = 0; round < 2; round++) {
      watched.clock.pass(30_000);
      await watched.scan("web-1", [listens("api", 9091, ["10.0.0.1"], { pid: 13 })]);
      await watched.cycle();
    }
    const rows = await queryServices(watched.hosts.store);
    const portsOf = (service: string): (number | null)[] | undefined =>
      rows.find((row) => row.service === service && row.agentId === "web-1")?.ports.map(({ port }) => port);
    expect(portsOf("api")).toEqual([9091]);
    expect(portsOf("hidden")).toEqual([22]);
  });

  it("reports no instances for a service that is gone", async () => {
    for (let round = 0; round < 2; round++) {
      watched.clock.pass(30_000);
      await watched.scan("web-2", [calls("worker", [])]);
      await watched.cycle();
    }
    const rows = await queryServices(watched.hosts.store);
    expect(rows.filter(({ agentId }) => agentId === "web-2").map(({ service, instances }) => [service, instances])).toEqual([
      ["api", 0],
      ["worker", 1],
    ]);
  });
});
