/** Windows of a traffic process through a real agent and its store, pulled and queried by a real colony. */

import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Agent, startAgent } from "../../src/agent/index.ts";
import { FakeTraffic, requestGroup, trafficWindow } from "../../src/agent/traffic/traffic-window.fixture.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { peerCredentials } from "../../src/bpf/index.ts";
import { type AgentConfig, agentPaths, loadAgentConfig } from "../../src/config/index.ts";
import type { AgentStatus } from "../../src/tools/index.ts";
import { requestJson, requestText } from "../../src/transport/index.ts";
import { InProcessColony } from "../support/in-process-colony.ts";
import { makeTestHome } from "../support/test-home.ts";

let stack: ResourceStack;
let colony: InProcessColony;
let agent: Agent;
let config: AgentConfig;
let port: number;
const traffic = new FakeTraffic();

beforeAll(async () => {
  stack = new ResourceStack();
  const home = stack.use(makeTestHome()).path;
  const paths = agentPaths(home);
  mkdirSync(paths.dataDirectory, { recursive: true });
  const server = createServer((_, response) => response.end()).listen(0, "127.0.0.1");
  stack.defer(async () => {
    server.close();
  });
  await once(server, "listening");
  port = (server.address() as AddressInfo).port;
  colony = stack.use(await InProcessColony.start({ dataDirectories: [paths.dataDirectory] }));
  const token = (await colony.colony.tokens.create({ kind: "join", name: "", permission: null, validForMs: 3_600_000, uses: 1 })).token;
  const loaded = (await loadAgentConfig({ home, env: {} })).config;
  const names = { ...loaded.serviceDiscovery.names, portMapping: { [String(port)]: "storefront" } };
  config = {
    ...loaded,
    listen: { ...loaded.listen, port: 0 },
    serviceDiscovery: { ...loaded.serviceDiscovery, scanIntervalMs: 1_000, names },
  };
  agent = stack.use(
    await startAgent({
      config,
      paths,
      engine: colony.engine,
      version: "0.0.0-test",
      owner: undefined,
      peerCredentials,
      obtainToken: async () => token,
      locateColony: async () => colony.colony.endpoint,
      capabilities: [],
      portSearch: 0,
      superviseTraffic: traffic.supervise,
      clock: systemClock,
      log: silentLogger,
    }),
  );
});

afterAll(() => stack[Symbol.asyncDispose]());

interface RedAnswer {
  output?: unknown;
  rows: Record<string, unknown>[];
}

const red = (input: Record<string, unknown>): Promise<RedAnswer> => colony.tool<RedAnswer>("coral_query_red", { since: "5m", ...input });
const report = (...requests: Parameters<typeof requestGroup>[0][]): void =>
  traffic.options?.onReport(trafficWindow(systemClock.monotonicMs(), requests.map(requestGroup)));

describe("requests from a traffic process", () => {
  it("are counted for the service that the scan found, by route and status", async () => {
    for (let window = 0; window < 3; window++) {
      report(
        { pid: process.pid, serverPort: port, route: "/cart/{id}", count: 100 },
        { pid: process.pid, serverPort: port, route: "/cart/{id}", status: "503", isError: true, count: 10 },
        {
          pid: process.pid,
          role: "client",
          protocol: "postgres",
          serverPort: 5_432,
          peerAddress: "203.0.113.5",
          method: "SELECT",
          route: "SELECT ?",
          count: 7,
        },
      );
    }
    await vi.waitFor(
      async () => {
        const { rows } = await red({ service: "storefront", role: "server", by: "service" });
        expect(rows).toMatchObject([{ service: "storefront", role: "server", protocol: "http", requests: 330, errors: 30 }]);
      },
      { interval: 200 },
    );
    const { rows } = await red({ service: "storefront", role: "server", by: "status" });
    expect(rows.map((row) => [row["status"], row["requests"]])).toEqual([
      ["200", 300],
      ["503", 30],
    ]);
    const calls = (await red({ role: "client", protocol: "postgres", by: "peer" })).rows;
    expect(calls).toMatchObject([{ protocol: "postgres", peer: "203.0.113.5", requests: 21 }]);
    const [p95] = await colony.sql(
      "SELECT sum(requests) AS n FROM red_latencies WHERE service = 'storefront' AND role = 'server' AND part = 'duration'",
    );
    expect(p95?.["n"]).toBe(330);
  });

  it("appear in the agent's status, metrics and losses", async () => {
    traffic.status.state = { kind: "state", hooks: "sockets", problem: null, tls: [], step: 0 };
    traffic.options?.onReport(trafficWindow(systemClock.monotonicMs(), [], { losses: [{ loss: "undecoded", count: 4 }] }));
    const target = { kind: "unix" as const, path: agent.socketFile };
    const status = (await requestJson({ target, method: "GET", path: "/v1/status" })) as AgentStatus;
    expect(status.traffic).toMatchObject({ state: "on", hooks: "sockets", losses: [{ loss: "undecoded", count: 4 }] });
    const metrics = await requestText({ target, method: "GET", path: "/metrics" });
    expect(metrics).toContain("coral_traffic_requests_total 351\n");
    expect(metrics).toContain('coral_traffic_lost_total{loss="undecoded"} 4\n');
    await vi.waitFor(async () =>
      expect(await colony.sql("SELECT loss, count FROM traffic_loss")).toEqual([{ loss: "undecoded", count: 4 }]),
    );
  });

  it("stop and resume by config", async () => {
    agent.reload({ ...config, traffic: { ...config.traffic, enabled: false } });
    await vi.waitFor(() => expect(traffic.closed).toBe(1));
    agent.reload({ ...config, traffic: { ...config.traffic, intervalMs: 5_000 } });
    await vi.waitFor(() => expect(traffic.started).toBe(2));
    expect(traffic.settings.at(-1)?.windowMs).toBe(5_000);
  });
});
