/** A colony backend with made-up facts, for tests of the tools. */

import type { EdgeEnd, EdgeFact, NetworkFacts } from "../model/edges.ts";
import type { HostFacts, HostMetric } from "../model/host.ts";
import type { ServiceAtAgent } from "../model/services.ts";
import type { ColonyBackend } from "./contract/backend.ts";
import type { ToolCallContext } from "./contract/define-tool.ts";
import type { AgentInfo } from "./schemas/agent.ts";

export const context: ToolCallContext = { signal: new AbortController().signal };

export function agentOf(agentId: string, more: Partial<AgentInfo> = {}): AgentInfo {
  return {
    agentId,
    hostname: `${agentId}.example.org`,
    health: "healthy",
    healthReason: "",
    storeProblem: null,
    pidNamespace: 0,
    connected: true,
    version: "0.1.0",
    os: "Debian 13",
    kernel: "6.12",
    arch: "x64",
    machineId: "m",
    bootId: "b",
    epoch: "e",
    labels: {},
    capabilities: [],
    firstSeenAt: "2026-01-01T00:00:00.000Z",
    lastContactAt: "2026-01-02T00:00:00.000Z",
    lastContactAgoMs: 2_000,
    pullLagMs: 4_000,
    link: null,
    clockDifferenceMs: 3,
    certificateExpiresAt: null,
    revoked: false,
    protocolVersion: 2,
    isLegacy: false,
    runtime: null,
    runtimeProblems: [],
    ...more,
  };
}

const metricOf = (avg: number | null, pointCount: number): HostMetric => ({
  min: avg,
  avg,
  max: avg,
  points: Array.from({ length: pointCount }, () => avg),
});

/** An idle host. */
export function hostFactsOf(agentId: string, more: Partial<HostFacts> = {}, pointCount = 0): HostFacts {
  const metric = (avg: number | null): HostMetric => metricOf(avg, pointCount);
  return {
    agentId,
    sampledAt: "2026-01-02T00:00:00.000Z",
    latest: {
      cpuCount: 4,
      cpuBusyRatio: 0.2,
      cpuUserRatio: 0.1,
      cpuSystemRatio: 0.1,
      cpuIowaitRatio: 0,
      cpuStealRatio: 0,
      load1m: 0.5,
      load5m: 0.5,
      load15m: 0.5,
      processesRunning: 1,
      processesBlocked: 0,
      processesTotal: 100,
      contextSwitchesPerS: 1000,
      forksPerS: 1,
      memTotalBytes: 8 * 1024 ** 3,
      memAvailableBytes: 6 * 1024 ** 3,
      memCachedBytes: 0,
      memDirtyBytes: 0,
      swapTotalBytes: 0,
      swapUsedBytes: 0,
      swapInPerS: 0,
      swapOutPerS: 0,
      psiCpuSomeRatio: 0,
      psiMemorySomeRatio: 0,
      psiMemoryFullRatio: 0,
      psiIoSomeRatio: 0,
      psiIoFullRatio: 0,
      tcpEstablished: 10,
      tcpOutSegmentsPerS: 100,
      tcpRetransmitsPerS: 0,
      tcpResetsSentPerS: 0,
      tcpAttemptFailsPerS: 0,
      uptimeS: 1000,
    },
    totals: { samples: 20, oomKills: 0, tcpListenOverflows: 0, tcpListenDrops: 0, tcpRetransmitRatio: 0, tcpRetransmits: 0 },
    series: {
      startAt: "2026-01-02T00:00:00.000Z",
      bucketMs: 15_000,
      resolution: "raw",
      cpuBusyRatio: metric(0.2),
      cpuIowaitRatio: metric(0),
      cpuStealRatio: metric(0),
      load1m: metric(0.5),
      memUsedRatio: metric(0.25),
      psiCpuSomeRatio: metric(0),
      psiMemorySomeRatio: metric(null),
      psiIoSomeRatio: metric(0),
      diskBusyRatio: metric(0.1),
    },
    cores: [],
    mounts: [],
    disks: [],
    interfaces: [],
    cgroups: [],
    topByCpu: [],
    topByRss: [],
    ...more,
  };
}

const sampleTime = "2026-01-02T00:00:00.000Z";

/** One service on one port at one agent. */
export function serviceOf(agentId: string, service: string, port: number | null, more: Partial<ServiceAtAgent> = {}): ServiceAtAgent {
  const status = more.status ?? "discovered";
  const confidence = more.confidence ?? 0.85;
  return {
    agentId,
    service,
    namedBy: "systemd-unit",
    confidence,
    status,
    ports: [
      {
        port,
        protocol: port === null ? null : "tcp",
        status,
        method: port === null ? "connection_tracking" : "listening_socket",
        previousMethod: null,
        confidence,
        firstSeenAt: sampleTime,
        lastSeenAt: sampleTime,
      },
    ],
    instances: 1,
    pids: [100],
    exe: "/usr/bin/node",
    build: "abc",
    health: null,
    addresses: port === null ? [] : [`0.0.0.0:${port}`],
    ingress: false,
    egress: false,
    firstSeenAt: sampleTime,
    lastSeenAt: sampleTime,
    ...more,
  };
}

const endOf = (text: string): EdgeEnd => {
  const [kind = "", name = ""] = text.includes(":") ? text.split(/:(.*)/s) : ["service", text];
  return { kind: kind as EdgeEnd["kind"], name, addresses: [], agentIds: kind === "external" ? [] : ["web-1"], resolved: null };
};

/** `edgeOf("api", "db", 5432)`, `edgeOf("api", "external:52.94.236.248", 443)`, `edgeOf("external:1.2.3.4", "web", 80)`. */
export function edgeOf(from: string, to: string, serverPort: number, more: Partial<EdgeFact> = {}): EdgeFact {
  const [client, server] = [endOf(from), endOf(to)];
  return {
    class: client.kind === "external" ? "INGRESS" : server.kind === "external" ? "EGRESS" : "INTERNAL",
    confidence: 0.9,
    evidence: ["both-ends"],
    protocol: "tcp",
    serverPort,
    client,
    server,
    connections: 1,
    openConnections: 1,
    opened: 1,
    failures: 0,
    bytesToServer: 100,
    bytesToClient: 1_000,
    rttUs: 200,
    retransmits: 0,
    firstSeenAt: sampleTime,
    lastSeenAt: sampleTime,
    firstBuild: null,
    ...more,
  };
}

export function networkOf(edges: EdgeFact[], more: Partial<NetworkFacts> = {}): NetworkFacts {
  return { edges, windowMs: 3_600_000, cutEdges: 0, skippedConnections: 0, skippedAgentIds: [], unsettledConnections: 0, ...more };
}

/** Two healthy hosts; a test overrides what it needs. */
export function colonyOf(more: Partial<ColonyBackend> = {}): ColonyBackend {
  const refuse = (): Promise<never> => Promise.reject(new Error("not expected in this test"));
  return {
    status: async () => ({
      colony: {
        colonyId: "shop-prod-abc123",
        name: "shop",
        environment: "prod",
        version: "0.1.0",
        pid: 1,
        startedAt: "2026-01-01T00:00:00.000Z",
        uptimeMs: 86_400_000,
        endpoints: ["https://127.0.0.1:9000"],
      },
      store: { usedBytes: 1_000_000, limitBytes: 1_000_000_000, writeProblem: "", damage: "", diskFreeBytes: 10 * 1024 ** 3 },
      duplicates: [],
      nameProblems: [],
    }),
    agents: async () => [agentOf("web-1"), agentOf("web-2")],
    incidents: async () => ({ incidents: [], open: 0 }),
    incident: async () => undefined,
    objectives: async () => [],
    setObjective: refuse,
    removeObjective: refuse,
    requestTotals: async () => [],
    runtimeContext: async () => ({ runtime: null, problems: [], source: "registry", note: "the agent is not connected", history: [] }),
    hostsNow: async () => [],
    host: async ({ agentIds, maxPoints }) => agentIds.map((agentId) => hostFactsOf(agentId, {}, maxPoints)),
    services: async () => [],
    edges: async () => networkOf([]),
    red: async ({ sinceMs }) => ({ rows: [], total: 0, windowMs: sinceMs, bucketMs: 0 }),
    edgeRed: async ({ sinceMs }) => ({ edges: [], windowMs: sinceMs }),
    connections: async () => ({ rows: [], total: 0, unattributed: 0 }),
    databaseTraffic: async () => ({ statements: [], pools: [] }),
    inspectDatabases: refuse,
    trafficLosses: async () => [],
    logs: async () => ({ rows: [], next: null, services: [] }),
    metricNames: async () => ({ rows: [], total: 0 }),
    metric: async () => ({ rows: [], total: 0, startMs: 0, stepMs: 0, unmergedSeries: 0 }),
    promql: async () => ({ rows: [], total: 0, startMs: 0, stepMs: 0 }),
    metricLosses: async () => [],
    logPatterns: async () => ({ rows: [], total: 0, records: 0, services: [] }),
    serviceCpu: async () => [],
    traces: async () => ({ rows: [], traces: 0, storedSpans: 0, estimatedSpans: 0 }),
    trace: async () => ({ spans: [], total: 0 }),
    spanRed: async ({ sinceMs }) => ({ rows: [], total: 0, startMs: 0, endMs: sinceMs, coveredMs: sinceMs }),
    profile: async () => ({
      ...{ stacks: [], samples: 0, cpuUs: 0, samplesBefore: 0, cpuUsBefore: 0, instances: 0, fromMs: null, untilMs: null, losses: [] },
    }),
    hotFunctions: async () => ({ samples: { now: 0, before: 0 }, cores: { now: 0, before: 0 }, hottest: [], grown: [] }),
    spanServices: async () => [],
    logServices: async () => [],
    spanProcesses: async () => [],
    spanEdges: async ({ sinceMs }) => ({ edges: [], windowMs: sinceMs }),
    nowMs: () => Date.parse("2026-01-01T00:00:00Z"),
    diagnosisOnset: async () => ({ onsetMs: null, endMs: null, earlier: [], seenSinceMs: null }),
    diagnosisFacts: async (times) => ({
      ...times,
      measures: [],
      operations: [],
      links: [],
      steps: [],
      calls: [],
      externals: [],
      changes: [],
      hosts: [],
      limits: [],
    }),
    keepEvidence: async () => {},
    evidence: async () => undefined,
    summary: async () => ({
      nowMs: Date.UTC(2026, 0, 2),
      windowMs: 300_000,
      requests: [],
      routes: [],
      calls: [],
      places: [],
      hosts: [],
      cgroups: [],
      patterns: [],
      events: [],
      logServices: [],
      aliases: new Map(),
    }),
    routeHealth: async () => [],
    serviceDetails: async () => ({
      routes: [],
      peers: [],
      course: { startMs: 0, stepMs: 60_000, requests: [], errors: [], p95Us: [] },
      load: [],
    }),
    deployments: async () => [],
    markDeployment: async () => {
      throw new Error("not here");
    },
    capture: async function* () {
      yield await refuse();
    },
    execute: refuse,
    refuseCommand: async () => undefined,
    sql: refuse,
    events: async () => [],
    losses: async () => [],
    coverage: async () => ({ unobserved: [], kept: [], nowMs: Date.UTC(2030, 0, 1) }),
    audit: refuse,
    auditEntries: refuse,
    verifyAudit: refuse,
    recording: () => {
      throw new Error("not here");
    },
    approvals: refuse,
    decideApproval: refuse,
    createToken: refuse,
    tokens: async () => [],
    revokeToken: refuse,
    revokeAgent: refuse,
    ...more,
  };
}
