/** Connecting services over the real control socket, with a real store and real health checks. */

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../base/clock.ts";
import { silentLogger } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { type AgentStore, openAgentStore } from "../store/agent/index.ts";
import { openEngine } from "../store/engine/index.ts";
import { connection, event, type RowOf, serviceInstance } from "../store/signals/index.ts";
import type { AgentServiceStatus, ManagedServiceList, ServicesConnected } from "../tools/index.ts";
import { createHttpRoutes, requestJson, startControlServer } from "../transport/index.ts";
import { agentRoutes } from "./agent-routes.ts";
import { readServices } from "./agent-status.ts";
import { ServiceIdentities } from "./naming/service-identities.ts";
import { type Managed, openManaged } from "./open-managed.ts";

const mebibyte = 1024 ** 2;
const noDatabases = {
  check: () => Promise.reject(new Error("not expected")),
  keep: () => Promise.resolve(),
  forget: () => Promise.resolve(),
};

let directory: string;
let stack: ResourceStack;
let store: AgentStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-routes-"));
  stack = new ResourceStack();
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const engine = stack.use(
    await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * mebibyte, threads: 1, log: silentLogger }),
  );
  store = stack.use(
    await openAgentStore(engine, {
      file: join(directory, "agent.duckdb"),
      signals: [serviceInstance, connection, event] as never,
      maxBytes: 64 * mebibyte,
      clock: systemClock,
      log: silentLogger,
    }),
  );
});
afterEach(() => stack[Symbol.asyncDispose]());

interface Started {
  managed: Managed;
  changed: number;
  stop(): Promise<void>;
}

async function start(): Promise<Started> {
  const managed = await openManaged({
    file: join(directory, "services.json"),
    identities: new ServiceIdentities("vm-1"),
    owner: undefined,
    store,
    settings: () => ({ intervalMs: 5, timeoutMs: 5_000, unhealthyAfter: 2, healthyAfter: 1 }),
    clock: systemClock,
    log: silentLogger,
  });
  const controller = new AbortController();
  const done = managed.checks.run(controller.signal);
  const started: Started = { managed, changed: 0, stop: () => Promise.resolve() };
  const server = await startControlServer({
    path: join(directory, "agent.sock"),
    peerCredentials: undefined,
    log: silentLogger,
    http: createHttpRoutes({
      routes: agentRoutes({
        status: () => Promise.reject(new Error("not here")),
        registry: managed.registry,
        databases: noDatabases,
        healthOf: (port) => managed.services.healthOf(port),
        discoveredAt: (port, protocol) => managed.facts.discoveredAt(port, protocol),
        onChange: () => {
          started.changed++;
          managed.checks.refresh();
        },
      }),
      authorize: (caller) => ({ name: caller.kind }),
      notReady: () => undefined,
      metrics: () => Promise.resolve(""),
      log: silentLogger,
    }),
  });
  started.stop = async () => {
    controller.abort();
    await done;
    await server.close();
  };
  stack.defer(() => started.stop());
  return started;
}

function call<Reply>(method: "GET" | "POST" | "DELETE", path: string, body?: unknown): Promise<Reply> {
  const target = { kind: "unix" as const, path: join(directory, "agent.sock") };
  return requestJson({ target, method, path, ...(body === undefined ? {} : { body }) }) as Promise<Reply>;
}

const connect = (...services: unknown[]): Promise<ServicesConnected> => call("POST", "/v1/services", { services });

async function listen(): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => socket.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => void server.close());
  return { server, port: (server.address() as AddressInfo).port };
}

function instance(change: Partial<RowOf<typeof serviceInstance.columns>>, monoMs = 1): RowOf<typeof serviceInstance.columns> {
  return {
    at: Date.now() * 1_000,
    mono_ms: monoMs,
    service: "postgres",
    name: null,
    origin: null,
    qualifiers: null,
    aliases: null,
    named_by: "executable",
    confidence: 0.7,
    method: "listening_socket",
    protocol: "tcp",
    address: "0.0.0.0",
    port: 5432,
    pid: 10,
    start_ticks: 100,
    started: null,
    exe: "/usr/bin/postgres",
    build: "abc",
    build_kind: "build-id",
    command_line: null,
    environment: null,
    user_id: 0,
    user_name: "root",
    cgroup: null,
    container_id: null,
    container_name: null,
    unit: null,
    netns: 1,
    addresses: null,
    managed: false,
    health: null,
    health_detail: null,
    ...change,
  };
}

describe("POST /v1/services", () => {
  it("promotes discovered services, registers others, and checks them at once", async () => {
    const { server, port } = await listen();
    await store.append(serviceInstance, [instance({ port, service: "node" })]);
    const started = await start();
    const reply = await connect({ name: "api", port }, { name: "later", port: 1, type: "http" });
    expect(reply.services).toMatchObject([
      { name: "api", port, health: null, type: null, outcome: "promoted", discovered: { name: "node", method: "listening_socket" } },
      { name: "later", port: 1, type: "http", outcome: "registered", discovered: null },
    ]);
    expect(started.changed).toBe(1);
    await vi.waitFor(async () => {
      const { services } = await call<ManagedServiceList>("GET", "/v1/services");
      expect(services.map((item) => [item.name, item.check.state])).toEqual([
        ["api", "healthy"],
        ["later", "unhealthy"],
      ]);
    });
    server.close();
    await vi.waitFor(async () => {
      const rows = await store.query(
        "SELECT kind, severity, details->>'name' AS name, service, message, details FROM agent_event ORDER BY seq",
      );
      expect(rows).toMatchObject([
        { name: "later", service: "port:vm-1/1", severity: "error", message: "later on port 1 is unhealthy: connection refused" },
        { name: "api", severity: "error", kind: "service-health-changed" },
      ]);
      expect(JSON.parse(String(rows[1]?.["details"]))).toEqual({
        name: "api",
        port,
        check: "tcp",
        before: "healthy",
        after: "unhealthy",
        detail: "connection refused",
      });
    });
  });

  it("keeps services and their last reported health across a restart", async () => {
    const first = await start();
    await connect({ name: "later", port: 1 });
    const events = () => store.query("SELECT count(*) AS events FROM agent_event");
    await vi.waitFor(async () => expect((await events())[0]?.["events"]).toBe(1));
    await first.stop();
    const second = await start();
    await vi.waitFor(() => expect(second.managed.services.healthOf(1)?.state).toBe("unhealthy"));
    await second.stop();
    expect((await events())[0]?.["events"]).toBe(1);
  });

  it.each([
    [undefined, 'Cannot connect services: the request has no "services" list'],
    [{ services: [] }, "the request has no"],
    [{ services: [{ name: "a b", port: 1 }] }, '"a b" is not a name'],
    [{ services: [{ name: "a", port: 70_000 }] }, "port 70000 is not between 1 and 65535"],
    [
      {
        services: [
          { name: "a", port: 1 },
          { name: "b", port: 1 },
        ],
      },
      'Cannot connect service "b": port 1 is given twice',
    ],
  ])("refuses %j", async (body, message) => {
    const started = await start();
    await expect(call("POST", "/v1/services", body)).rejects.toMatchObject({ code: "invalid", message: expect.stringContaining(message) });
    expect(started.changed).toBe(0);
    expect(await call("GET", "/v1/services")).toEqual({ services: [] });
  });

  it("names the service that a port is registered for", async () => {
    await start();
    await connect({ name: "api", port: 1 });
    expect((await connect({ name: "api", port: 1 })).services[0]?.outcome).toBe("unchanged");
    expect((await connect({ name: "api", port: 1, health: "/" })).services[0]?.outcome).toBe("updated");
    await expect(connect({ name: "web", port: 1 })).rejects.toMatchObject({ code: "already-exists", details: { port: 1, name: "api" } });
  });
});

describe("DELETE /v1/services/:name", () => {
  it("removes every port of a name, and answers 404 for unknown names", async () => {
    await start();
    await connect({ name: "a.b", port: 2 }, { name: "a.b", port: 1 }, { name: "c", port: 3 });
    expect(await call("DELETE", "/v1/services/a.b")).toEqual({ name: "a.b", ports: [1, 2] });
    await expect(call("DELETE", "/v1/services/a.b")).rejects.toMatchObject({ code: "not-found" });
    await expect(call("DELETE", `/v1/services/${encodeURIComponent("../x")}`)).rejects.toMatchObject({ code: "not-found" });
    expect((await call<ManagedServiceList>("GET", "/v1/services")).services.map((item) => item.name)).toEqual(["c"]);
  });
});

describe("readServices()", () => {
  it("merges the newest scan with registered services, running or not", async () => {
    const { managed } = await start();
    await store.append(serviceInstance, [instance({ service: "old", port: 1 }, 1)]);
    await store.append(serviceInstance, [
      instance({ pid: 10, start_ticks: 100 }, 2),
      instance({ pid: 11, start_ticks: 200, build: "new" }, 2),
      instance({ service: "worker", port: null, protocol: null, pid: null, method: "connection_tracking" }, 2),
      instance({ service: "node", port: 8080, pid: 12 }, 2),
      instance({ service: "quic", port: 8080, protocol: "udp" }, 2),
      instance({ service: "down", port: 9, address: null, pid: null, start_ticks: null, exe: null, build: null, managed: true }, 2),
    ]);
    await managed.registry.connect([
      { name: "postgres", port: 5432 },
      { name: "gone", port: 7 },
      { name: "down", port: 9 },
      { name: "api", port: 8080 },
    ]);
    const services = await readServices({ facts: managed.facts, managed: managed.services });
    const line = ({ name, port, status, method, instances, pid, build }: AgentServiceStatus): unknown[] => [
      name,
      port,
      status,
      method,
      instances,
      pid,
      build,
    ];
    expect(services.map(line)).toEqual([
      // The registration is newer than the scan, which still has the name node.
      ["api", 8080, "managed", "manual", 1, 12, "abc"],
      ["down", 9, "managed", "manual", 0, null, null],
      ["gone", 7, "managed", "manual", 0, null, null],
      ["postgres", 5432, "managed", "manual", 2, 11, "new"],
      ["quic", 8080, "discovered", "listening_socket", 1, 10, "abc"],
      ["worker", null, "discovered", "connection_tracking", 1, null, "abc"],
    ]);
    expect(await managed.facts.addressesOf(5432)).toEqual([]);
    await store.append(serviceInstance, [instance({ address: "10.0.0.5", addresses: '["10.0.0.5","fe80::1","127.0.0.1","::","x y"]' }, 3)]);
    expect(await managed.facts.addressesOf(5432)).toEqual(["10.0.0.5", "fe80::1"]);
  });
});
