import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { AgentTrafficConfig } from "../../config/index.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf, type TestScan } from "../discovery/discovery-scan.fixture.ts";
import { ServiceIdentities } from "../naming/service-identities.ts";
import { createServiceNamer } from "../naming/service-namer.ts";
import { LearnedNames } from "./learned-names.ts";
import { TrafficCollector } from "./traffic-collector.ts";
import { createTrafficDirectory } from "./traffic-directory.ts";
import type { RedRow } from "./traffic-rows.ts";
import { trafficStatus } from "./traffic-status.ts";
import { FakeTraffic, requestGroup, trafficWindow } from "./traffic-window.fixture.ts";

let nowMs: number;
let config: AgentTrafficConfig;
let appended: { signal: string; rows: Record<string, unknown>[] }[];
let rescans: number;
/** Start of processes that run, whether or not a scan has seen them. */
let running: Map<number, number>;
let ownPids: number[];
let traffic: FakeTraffic;
let collector: TrafficCollector;
const names = new LearnedNames({ hostname: "vm" });
const clock: Clock = { wallMs: () => 1_000_000_000 + nowMs, monotonicMs: () => nowMs };
const store: Pick<AgentStore, "append"> = {
  append: async (signal, rows) => {
    appended.push({ signal: signal.name, rows: [...rows] as Record<string, unknown>[] });
    return { firstSeq: 1, lastSeq: rows.length };
  },
};

beforeEach(async () => {
  nowMs = 100_000;
  appended = [];
  rescans = 0;
  running = new Map();
  ownPids = [1];
  traffic = new FakeTraffic();
  config = {
    enabled: true,
    intervalMs: 10_000,
    disabledProtocols: [],
    tls: { enabled: true, exclude: [] },
    maxRequestKinds: 4_096,
    maxConnections: 65_536,
    maxRoutesPerService: 200,
    maxRows: 1_000,
    ringBytes: 8 * 1024 ** 2,
    cpuBudgetRatio: 0.01,
    capture: { enabled: true, maxDurationMs: 60_000, maxRequests: 100, maxCaptures: 2, bodies: true, headers: [] },
  };
  collector = new TrafficCollector({
    store,
    directory: createTrafficDirectory({ startTicksNow: (pid) => running.get(pid) ?? null }),
    names,
    config: () => config,
    supervise: traffic.supervise,
    ownPids: () => ownPids,
    cores: 4,
    rescan: () => {
      rescans++;
    },
    connections: {
      accept: ({ kind }) => connectionCalls.push(kind),
      lost: (reason) => connectionCalls.push(reason),
      stopped: (reason) => connectionCalls.push(`stopped: ${reason}`),
      explain: (reason) => connectionCalls.push(reason),
    },
    clock,
    log: silentLogger,
  });
  connectionCalls = [];
  await collector.reconfigure();
});
afterEach(() => collector[Symbol.asyncDispose]());

/** Calls on `connections`. */
let connectionCalls: string[] = [];

function scan(test: TestScan): void {
  const seen = scanOf(test);
  collector.scanned(
    seen,
    createServiceNamer({
      scan: seen,
      config: defaultDiscovery,
      managed: managedOf([]),
      traffic: names,
      identities: new ServiceIdentities("vm-1"),
    }),
  );
}
const report = (...[requests, more]: [Parameters<typeof trafficWindow>[1], Parameters<typeof trafficWindow>[2]?]) =>
  traffic.options?.onReport(trafficWindow(nowMs, requests, more));
async function stored(signal: string): Promise<Record<string, unknown>[]> {
  await new Promise((resolve) => setImmediate(resolve));
  return appended.filter((one) => one.signal === signal).flatMap(({ rows }) => rows);
}
const web: TestScan = {
  processes: [
    { pid: 5, service: "web" },
    { pid: 6, service: "shop" },
  ],
  listeners: [socketOf("0.0.0.0:80", null, null, { owners: [5] })],
};

describe("TrafficCollector", () => {
  it("names the other end of captured requests", () => {
    scan(web);
    const peers: (string | null | undefined)[] = [];
    const order = {
      captureId: "c",
      pids: [6],
      route: null,
      status: null,
      minDurationMs: 0,
      limit: 9,
      durationMs: 1_000,
      includeBody: false,
    };
    collector.captures.start(order, (report) => {
      if (report.kind === "captured") peers.push(report.peer);
    });
    for (const [serverAddress, serverPort] of [
      ["127.0.0.1", 80],
      ["203.0.113.7", 443],
    ] as const) {
      traffic.options?.onReport({
        ...{ kind: "captured", captureId: "c", at: { monoNs: 0n }, pid: 6, role: "client", protocol: "http", isTls: false },
        ...{ clientAddress: "127.0.0.1", clientPort: 40_000, serverAddress, serverPort, method: "GET", target: "/", route: "/" },
        ...{ status: "200", isError: false, requestHeaders: [], responseHeaders: [], requestBytes: 1, responseBytes: 1 },
        ...{ durationNs: 1, firstByteNs: null, queueNs: null, requestBody: null, responseBody: null },
      });
    }
    expect(peers).toEqual(["web", null]);
  });

  it("names the services whose requests cannot be seen", async () => {
    scan(web);
    nowMs += 500;
    const java = "Java's own TLS is not supported";
    const unseen = [
      { pid: 5, reason: "tls-unreadable", detail: java, count: 1 },
      { pid: 6, reason: "unix-socket", detail: "", count: 4 },
      { pid: 6, reason: "unix-socket", detail: "", count: 2 },
      { pid: 99, reason: "io-uring", detail: "", count: 1 },
    ] as const;
    traffic.options?.onReport(trafficWindow(nowMs - 500, [], { unseen: [...unseen], losses: [{ loss: "undecoded", count: 3 }] }));
    const rows = await stored("traffic_loss");
    expect(rows.map(({ loss, service, detail, count }) => [loss, service, detail, count])).toEqual([
      ["undecoded", null, null, 3],
      ["tls-unreadable", "web", java, 1],
      ["unix-socket", "shop", "", 6],
    ]);
  });

  it("names both ends of requests, and stores them with the time of their window", async () => {
    scan(web);
    nowMs += 500;
    traffic.options?.onReport(
      trafficWindow(
        nowMs - 500,
        [
          requestGroup({ count: 4 }),
          requestGroup({ pid: 6, role: "client", peerAddress: "127.0.0.1", count: 2 }),
          requestGroup({ pid: 6, role: "client", peerAddress: "203.0.113.7", serverPort: 443, isTls: true }),
          requestGroup({ pid: 6, role: "client", peerAddress: "203.0.113.8", serverPort: 443 }),
        ],
        { peerNames: [{ address: "203.0.113.7", port: 443, name: "api.pay.example", source: "tls_sni" }] },
      ),
    );
    const rows = (await stored("red")) as unknown as RedRow[];
    expect(rows.map(({ service, role, peer, requests }) => [service, role, peer, requests])).toEqual([
      ["web", "server", null, 4],
      ["shop", "client", "web", 2],
      ["shop", "client", "api.pay.example", 1],
      ["shop", "client", null, 1],
    ]);
    expect([rows[0]?.at, rows[0]?.mono_ms, rows[0]?.window_ms]).toEqual([(1_000_000_000 + 100_000) * 1_000, 100_000, 10_000]);
    expect(rescans).toBe(0);
  });

  it("names command-line tools at both ends even if they exited before a scan", async () => {
    scan(web);
    report([
      requestGroup({ peerAddress: "127.0.0.1", count: 2 }),
      requestGroup({ pid: 71, role: "client", peerAddress: "127.0.0.1", processName: "curl" }),
      requestGroup({ pid: 72, role: "client", peerAddress: "127.0.0.1", processName: "curl" }),
    ]);
    report([]);
    const rows = (await stored("red")) as unknown as RedRow[];
    expect(rows.map(({ service, role, peer, requests }) => [service, role, peer, requests])).toEqual([
      ["web", "server", "curl", 2],
      ["curl", "client", "web", 2],
    ]);
  });

  it("names a client on loopback only when it is the only one in the window", async () => {
    const connections = [socketOf("127.0.0.1:4001", "127.0.0.1:80", "client", { owners: [6] })];
    scan({ ...web, connections });
    const served = requestGroup({ peerAddress: "127.0.0.1" });
    report([served]);
    report([served, requestGroup({ pid: 6, role: "client", peerAddress: "127.0.0.1" })]);
    report([served, ...[6, 99].map((pid) => requestGroup({ pid, role: "client", peerAddress: "127.0.0.1" }))]);
    expect((await stored("red")).filter(({ role }) => role === "server").map(({ peer }) => peer)).toEqual(["shop", "shop", null]);
  });

  it("holds requests of an unknown process for a scan", async () => {
    report([requestGroup({ count: 3 })]);
    expect([await stored("red"), rescans]).toEqual([[], 1]);
    nowMs += 1_000;
    scan(web);
    expect(await stored("red")).toMatchObject([{ service: "web", requests: 3, mono_ms: 100_000 }]);
  });

  it("holds a few windows for the first scan", async () => {
    for (let window = 0; window < 3; window++) {
      report([requestGroup({ count: 2 })]);
      nowMs += 10_000;
    }
    expect(await stored("red")).toEqual([]);
    scan(web);
    expect((await stored("red")).map(({ service, requests }) => [service, requests])).toEqual(Array.from({ length: 3 }, () => ["web", 2]));
  });

  it("stores held requests after one window, under the kernel's process name", async () => {
    scan({});
    report([requestGroup({ pid: 77, role: "client", processName: "curl" }), requestGroup({ pid: 78 })]);
    nowMs += 10_000;
    report([]);
    expect((await stored("red")).map((row) => row["service"])).toEqual(["curl", "unknown"]);
  });

  it("requests scans less often when they do not find the process", async () => {
    for (let window = 0; window < 100; window++) {
      report([requestGroup({ pid: 1_000 + window, role: "client" })]);
      scan(web);
      nowMs += 10_000;
    }
    expect(rescans).toBeGreaterThan(3);
    expect(rescans).toBeLessThan(12);
  });

  it("requests a scan for a new server at once, and once", async () => {
    for (let window = 0; window < 20; window++) {
      report([requestGroup({ pid: 1_000 + window, role: "client" })]);
      scan(web);
      nowMs += 10_000;
    }
    const inVain = rescans;
    running.set(7, 70);
    for (const expected of [1, 1]) {
      report([requestGroup({ pid: 7, serverPort: 81 })]);
      expect(rescans).toBe(inVain + expected);
      nowMs += 10_000;
    }
  });

  it("stores losses, and totals losses and costs for the status", async () => {
    report([requestGroup({ count: 1_000 })], { losses: [{ loss: "ring-full", count: 7 }] });
    report([], { losses: [{ loss: "ring-full", count: 3 }] });
    expect((await stored("traffic_loss")).map(({ loss, count }) => [loss, count])).toEqual([
      ["ring-full", 7],
      ["ring-full", 3],
    ]);
    traffic.status.state = { kind: "state", hooks: "sockets", problem: null, tls: [], step: 0 };
    const status = trafficStatus(collector.readings());
    expect(status).toMatchObject({ state: "on", hooks: "sockets", reason: null, losses: [{ loss: "ring-full", count: 10 }], pid: 4_242 });
    expect(status.cost).toMatchObject({ bpfCpuRatio: 0.0005, processCpuRatio: 0.002, processRssBytes: 50 * 1024 ** 2 });
  });

  it("passes on reports about connections, and counts lost ones", async () => {
    traffic.options?.onReport({ kind: "connections-state", problem: null });
    traffic.options?.onReport({ kind: "connections", events: [], peers: [], lost: 0, mark: 1 });
    traffic.options?.onReport({ kind: "connections", events: [], peers: [], lost: 9, mark: null });
    expect((await stored("traffic_loss")).map(({ loss, count }) => [loss, count])).toEqual([["connections-full", 9]]);
    traffic.options?.onUnexpectedEnd?.("SIGKILL", 1_000);
    expect(connectionCalls).toEqual(["connections-state", "connections", "connections", "the traffic process is restarting"]);
    await collector[Symbol.asyncDispose]();
    expect(connectionCalls.at(-1)).toBe("stopped: the agent is stopping");
  });

  it("records restarts and steps of the detail ladder as events", async () => {
    for (const step of [0, 2, 2, 1]) traffic.options?.onReport({ kind: "state", hooks: "sockets", problem: null, tls: [], step });
    traffic.options?.onUnexpectedEnd?.("SIGKILL", 1_000);
    expect((await stored("agent_event")).map(({ kind, severity }) => [kind, severity])).toEqual([
      ["ladder-stepped", "warning"],
      ["ladder-stepped", "info"],
      ["traffic-process-restarted", "warning"],
    ]);
  });

  it("reports why nothing is observed, with a fix", async () => {
    expect(trafficStatus(collector.readings())).toMatchObject({ state: "starting", fix: null });
    traffic.status.state = { kind: "state", hooks: "off", problem: "CAP_BPF is missing", tls: [], step: 0 };
    expect(trafficStatus(collector.readings())).toMatchObject({ state: "off", reason: "CAP_BPF is missing" });
    expect(trafficStatus(collector.readings(), { inode: 7, isFirst: false }).scope).toBe("pid-namespace");
    expect(trafficStatus(collector.readings(), { inode: 7, isFirst: true }).scope).toBe("host");
    expect(trafficStatus(collector.readings(), null).scope).toBe("host");
    expect(trafficStatus(collector.readings()).fix).toContain("CAP_BPF and CAP_PERFMON");
    expect(collector.captures.problem).toBe("CAP_BPF is missing");
    config = { ...config, enabled: false };
    expect(trafficStatus(collector.readings())).toMatchObject({ state: "off", reason: "traffic.enabled is false in the agent's config" });
  });

  it("holds captures until the process is ready and a scan is done, but not when nothing is observed", async () => {
    const idle = new AbortController().signal;
    expect(await collector.captures.started(0, idle)).toBe("the traffic process is loading");
    const waiting = collector.captures.started(600_000, idle);
    const state = { kind: "state", hooks: "sockets", problem: null, tls: [], step: 0 } as const;
    traffic.status.state = { ...state, tls: [] };
    traffic.options?.onReport({ ...state, tls: [] });
    expect(await collector.captures.started(0, idle)).toBe("the first scan for services is not finished");
    scan(web);
    expect(await waiting).toBeNull();
    traffic.status.state = null;
    config = { ...config, enabled: false };
    expect(await collector.captures.started(600_000, idle)).toBeNull();
    expect(collector.captures.problem).toBe("traffic.enabled is false in the agent's config");
  });

  it("starts, reconfigures and stops the process to match the config", async () => {
    expect([traffic.started, traffic.settings[0]?.cpuBudget, traffic.options?.ownPids]).toEqual([1, 0.04, [1]]);
    config = { ...config, intervalMs: 30_000, disabledProtocols: ["redis"] };
    await collector.reconfigure();
    await collector.reconfigure();
    expect(traffic.settings).toHaveLength(2);
    expect(traffic.settings[1]).toMatchObject({ windowMs: 30_000, disabledProtocols: ["redis"] });
    config = { ...config, enabled: false };
    await collector.reconfigure();
    expect([traffic.started, traffic.closed]).toEqual([1, 1]);
    config = { ...config, enabled: true };
    await collector.reconfigure();
    expect(traffic.started).toBe(2);
  });

  it("updates the process when processes of Coral start and exit", async () => {
    ownPids = [1, 2];
    scan(web);
    scan(web);
    expect([traffic.settings.length, traffic.options?.ownPids]).toEqual([2, [1, 2]]);
  });

  it("skips disabled protocols", async () => {
    scan(web);
    config = { ...config, disabledProtocols: ["redis"] };
    report([requestGroup({ protocol: "redis" }), requestGroup()]);
    expect((await stored("red")).map((row) => row["protocol"])).toEqual(["http"]);
  });

  it("drops TLS requests of excluded services, also before the process knows their pids", async () => {
    config = { ...config, tls: { enabled: true, exclude: ["sh*", "/opt/vault/*"] } };
    await collector.reconfigure();
    scan(web);
    expect(traffic.settings.at(-1)?.tls).toMatchObject({ excludedExecutables: ["sh*", "/opt/vault/*"] });
    report([
      requestGroup({ pid: 6, role: "client", isTls: true, count: 5 }),
      requestGroup({ pid: 6, role: "client" }),
      requestGroup({ isTls: true }),
    ]);
    expect((await stored("red")).map(({ service, is_tls: isTls }) => [service, isTls])).toEqual([
      ["shop", false],
      ["web", true],
    ]);
    expect(await stored("traffic_loss")).toMatchObject([{ loss: "tls-opaque", count: 5 }]);
    // Its pid is known now.
    scan(web);
    expect(traffic.settings.at(-1)?.tls.excludedPids).toEqual([6]);
  });

  it("adds requested hosts as aliases, and keeps the service's name", async () => {
    scan(web);
    report([], { names: [{ pid: 5, port: 80, source: "http_host", name: "evil-rename.test", requests: 80 }] });
    expect(names.aliases().get("5 5")).toEqual(["evil-rename.test"]);
    scan(web);
    report([requestGroup()]);
    expect((await stored("red")).at(-1)).toMatchObject({ service: "web" });
  });

  it("stores pending rows when closed, and stops the process once", async () => {
    report([requestGroup({ pid: 77, processName: "job" })]);
    await collector[Symbol.asyncDispose]();
    await collector[Symbol.asyncDispose]();
    expect(await stored("red")).toMatchObject([{ service: "job" }]);
    expect(traffic.closed).toBe(1);
  });
});
