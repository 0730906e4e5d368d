/** `coral capture` from the command line through a real colony and a real tunnel to an agent with a fake traffic process. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CaptureHub } from "../../src/agent/capture/capture-hub.ts";
import { createCaptureService } from "../../src/agent/capture/capture-service.ts";
import { addAgentService } from "../../src/agent/link/agent-service.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { runCli } from "../../src/cli/index.ts";
import { type AgentStore, openAgentStore } from "../../src/store/agent/index.ts";
import { event, type RowOf, serviceInstance, signals } from "../../src/store/signals/index.ts";
import type { CaptureResult, EventList, CapturedRequest as ToolRequest } from "../../src/tools/index.ts";
import type { CapturedRequest, CaptureOrder } from "../../src/traffic/index.ts";
import { type DialledTunnel, dialTunnel, registerAgent } from "../../src/transport/index.ts";
import { InProcessColony, type RegistrationChanges, registration } from "../support/in-process-colony.ts";
import { waitFor } from "../support/wait-for.ts";

let stack: ResourceStack;
let colony: InProcessColony;
let store: AgentStore;
let hub: CaptureHub;
let tunnel: DialledTunnel;
let orders: CaptureOrder[];
let stops: string[];

async function start(register: RegistrationChanges = {}): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "coral-capture-"));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  mkdirSync(directory, { recursive: true });
  colony = stack.use(
    await InProcessColony.start({
      dataDirectories: [directory],
      configure: (config) => ({ ...config, serviceDiscovery: { ...config.serviceDiscovery, intervalMs: 100 } }),
    }),
  );
  store = await openAgentStore(colony.engine, {
    file: join(directory, "agent.duckdb"),
    signals,
    maxBytes: 64 * 1024 ** 2,
    clock: systemClock,
    log: silentLogger,
  });
  stack.defer(() => store.close());
  await store.append(serviceInstance, [instanceOf("api", 8080, 7), instanceOf("api", 8080, 8)]);
  orders = [];
  stops = [];
  hub = new CaptureHub({
    capture: (order) => orders.push(order) > 0,
    stopCapture: (captureId) => stops.push(captureId),
    problem: () => null,
    pendingStep: () => null,
  });
  const captures = createCaptureService({
    hub,
    pidsOf: async (service) => (service === "api" ? [7, 8] : []),
    serviceOf: (service) => (service === "api" ? { service, name: service } : undefined),
    limits: () => ({ isEnabled: true, maxDurationMs: 60_000, maxRequests: 50, maxCaptures: 4, allowBody: false, headers: ["host"] }),
    audit: async (row) => {
      await store.append(event, [row]);
    },
    clock: systemClock,
    log: silentLogger,
  });
  const identity = await colony.join("a1");
  const { endpoint } = colony.colony;
  const signal = new AbortController().signal;
  const registered = await registerAgent({ endpoint, identity, request: registration(identity, store.epoch, register), signal });
  tunnel = await dialTunnel({
    endpoint,
    identity,
    colonyId: identity.colonyId,
    signal,
    log: silentLogger,
    routes: (router) => addAgentService(router, { agentId: "a1", sessionId: registered.sessionId, store, captures, clock: systemClock }),
  });
  stack.defer(() => tunnel.close("the test is over"));
  await waitFor("the service to be known", async () => {
    const { services } = await colony.tool<{ services: unknown[] }>("coral_list_services", { service: "api" });
    return services.length > 0;
  });
}

beforeEach(() => {
  stack = new ResourceStack();
});
afterEach(() => stack[Symbol.asyncDispose]());

function instanceOf(service: string, port: number, pid: number): RowOf<typeof serviceInstance.columns> {
  const absent = {
    name: null,
    origin: null,
    qualifiers: null,
    aliases: null,
    build: null,
    build_kind: null,
    command_line: null,
    environment: null,
    user_name: null,
    cgroup: null,
    netns: null,
  };
  return {
    ...absent,
    at: Date.now() * 1_000,
    mono_ms: 1,
    service,
    named_by: "port",
    confidence: 0.9,
    method: "listening_socket",
    protocol: "tcp",
    address: "0.0.0.0",
    port,
    pid,
    start_ticks: 1,
    started: null,
    exe: null,
    user_id: 0,
    container_id: null,
    container_name: null,
    unit: null,
    addresses: null,
    managed: false,
    health: null,
    health_detail: null,
  };
}

function captured(captureId: string, target: string): CapturedRequest {
  return {
    kind: "captured",
    captureId,
    at: { monoNs: process.hrtime.bigint() },
    pid: 7,
    role: "server",
    protocol: "http",
    isTls: false,
    clientAddress: "127.0.0.1",
    clientPort: 40_000,
    serverAddress: "127.0.0.1",
    serverPort: 8080,
    method: "GET",
    target,
    route: "/x",
    status: "200",
    isError: false,
    requestHeaders: [
      ["host", "h"],
      ["cookie", "secret"],
    ],
    responseHeaders: [],
    requestBytes: 1,
    responseBytes: 2,
    durationNs: 1e6,
    firstByteNs: null,
    queueNs: null,
    requestBody: null,
    responseBody: null,
  };
}

interface Running {
  ran: Promise<number>;
  output: () => string;
  errors: () => string;
  /** Closes the connection, as when the process is killed. */
  kill: () => void;
}

function coral(line: string, env: Record<string, string> = {}): Running {
  let stdout = "";
  let stderr = "";
  const killed = new AbortController();
  const ran = runCli(["node", "coral", ...line.split(" ")], {} as never, {
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    stdin: { async *[Symbol.asyncIterator]() {} },
    env: { CORAL_HOME: colony.home, ...env },
    signal: killed.signal,
  });
  return { ran, output: () => stdout, errors: () => stderr, kill: () => killed.abort() };
}

async function nextOrder(): Promise<CaptureOrder> {
  const count = orders.length;
  return waitFor("an order to capture", () => orders[count] ?? orders.at(-1));
}

const audited = async (): Promise<string[]> =>
  (await store.query("SELECT kind FROM agent_event WHERE kind LIKE 'capture%' ORDER BY seq")).map((row) => String(row["kind"]));

describe("coral capture", () => {
  it("streams the agent's requests, and is audited at agent and colony", async () => {
    await start();
    const running = coral("capture api --limit 2 --status 2xx --min-duration 1ms -o json");
    const order = await nextOrder();
    expect(order).toMatchObject({ pids: [7, 8], limit: 2, status: "2xx", minDurationMs: 1, durationMs: 30_000, includeBody: false });
    hub.accept(captured(order.captureId, "/first"));
    await waitFor("the first line while it runs", () => running.output().includes("/first"));
    expect(stops).toEqual([]);
    hub.accept(captured(order.captureId, "/second"));
    expect(await running.ran).toBe(0);
    const lines = running.output().trimEnd().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as ToolRequest).target)).toEqual(["/first", "/second"]);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      hostname: "a1",
      service: "api",
      requestHeaders: [["host", "h"]],
      durationUs: 1_000,
    });
    expect(stops).toEqual([order.captureId]);
    const events = await waitFor("the events at the colony", async () => {
      const found = (await colony.tool<EventList>("coral_list_events", { service: "api" })).events.filter(({ kind }) =>
        kind.startsWith("capture-"),
      );
      return found.length === 2 && found;
    });
    expect(events.map(({ kind }) => kind).sort()).toEqual(["capture-ended", "capture-started"]);
    expect(events.find(({ kind }) => kind === "capture-ended")?.details).toMatchObject({
      caller: `local:uid=${process.getuid?.()}`,
      requests: 2,
      reason: "limit",
      filters: { status: "2xx", minDurationMs: 1 },
    });
  });

  it("ends when the command is killed", async () => {
    await start();
    const running = coral("capture api --duration 50s");
    const order = await nextOrder();
    running.kill();
    await running.ran;
    await waitFor("the capture to end", async () => stops.includes(order.captureId) && (await audited()).length === 2);
    expect(hub.running).toBe(0);
  });

  it("ends with an error when the agent's tunnel is lost", async () => {
    await start();
    const running = coral("capture api --duration 50s");
    await nextOrder();
    await waitFor("the capture to begin", () => running.errors().includes("watching 2 processes"));
    await tunnel.close("gone for a test");
    expect(await running.ran).toBe(1);
    expect(running.errors()).toContain("a1: closed by the agent: gone for a test");
    await waitFor("the audit", async () => (await audited()).length === 2);
    expect(hub.running).toBe(0);
  });

  it("ends at the agent when the colony stops", async () => {
    await start();
    const running = coral("capture api --duration 50s");
    await nextOrder();
    await waitFor("the capture to begin", () => running.errors().includes("watching 2 processes"));
    await colony.colony[Symbol.asyncDispose]();
    expect(await running.ran).toBe(1);
    await waitFor("the capture to end", async () => hub.running === 0 && (await audited()).length === 2);
  });

  it("is refused without the debug permission, if bodies are disabled, and for an unknown service", async () => {
    await start();
    const token = async (permission: "read" | "debug"): Promise<Record<string, string>> => {
      const created = await colony.colony.tokens.create({ kind: "user", name: "", permission, validForMs: 60_000, uses: null });
      return { CORAL_TOKEN: created.token };
    };
    const reader = coral("capture api", await token("read"));
    expect(await reader.ran).toBe(3);
    expect(reader.errors()).toContain('permission "debug" is required');
    const bodies = coral("capture api --body", await token("debug"));
    expect(await bodies.ran).toBe(3);
    expect(bodies.errors()).toContain("traffic.capture.bodies is false");
    const unknown = coral("capture nope");
    expect(await unknown.ran).toBe(4);
    expect(orders).toEqual([]);
    expect(await audited()).toEqual([]);
  });

  it("is unsupported if the agent reports that its probes are off", async () => {
    await start({ capabilities: [{ name: "traffic", available: false, reason: "the kernel has no BTF" }] });
    const running = coral("capture api");
    expect(await running.ran).toBe(2);
    expect(running.errors()).toContain("a1: the kernel has no BTF");
  });

  it("as a tool returns a bounded list", async () => {
    await start();
    const asked = colony.tool<CaptureResult>("coral_capture_requests", { service: "api", limit: 1, duration: "20s" });
    const order = await nextOrder();
    hub.accept(captured(order.captureId, "/tool"));
    expect(await asked).toMatchObject({ requests: [{ target: "/tool" }], ends: [{ reason: "limit", requests: 1 }] });
  });
});
