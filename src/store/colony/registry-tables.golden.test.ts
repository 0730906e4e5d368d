/** Golden rows of agents, conflicts, tokens, events, runtimes, deployments, sources and gaps, with the JSON inside them. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { RuntimeFacts } from "../../model/runtime-facts.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import type { Engine } from "../engine/engine.ts";
import { type GoldenRow, insertGoldenRows, storedRows } from "../golden-rows.fixture.ts";
import {
  type DeploymentRecord,
  type KnownBuild,
  listDeployments,
  loadKnownBuilds,
  saveDeployments,
} from "../queries/deployments/deployment-tables.ts";
import { sample, sampleRow, TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type ColonyStore, openColonyStore } from "./colony-store.ts";
import {
  type AgentRegistration,
  insertToken,
  listAgents,
  listConflicts,
  listEvents,
  listTokens,
  recordConflict,
  recordEvent,
  type TokenRecord,
  upsertAgent,
  useToken,
} from "./registry-tables.ts";
import { listRuntimeHistory, loadRuntimes, storeRuntime } from "./runtime-tables.ts";

const epoch = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";
const nowMs = new TestClock().wallMs();
const nowUs = nowMs * 1_000;
const hourMs = 3_600_000;

let folder: ReturnType<typeof temporaryFolder>;
let engine: Engine;
let store: ColonyStore;

beforeEach(async () => {
  folder = temporaryFolder();
  engine = await testEngine(folder.path);
  store = await openStore();
});
afterEach(async () => {
  await store.close();
  await engine.close();
  folder[Symbol.dispose]();
});

const openStore = (): Promise<ColonyStore> =>
  openColonyStore(engine, {
    file: folder.file("c.duckdb"),
    signals: [sample],
    maxBytes: 1024 ** 3,
    log: silentLogger,
    clock: new TestClock(),
  });

/** Inserts rows and opens the store again. */
async function reopened(rows: Readonly<Record<string, readonly GoldenRow[]>>): Promise<ColonyStore> {
  for (const [table, its] of Object.entries(rows)) await insertGoldenRows(store, table, its);
  await store.close();
  store = await openStore();
  return store;
}

describe("registry.agents", () => {
  const agent: AgentRegistration = {
    agentId: "web-1-0badcafe",
    hostname: "web-1",
    machineId: "4c4c4544",
    bootId: "b1",
    os: "Debian 12",
    kernel: "6.1.0",
    arch: "x64",
    version: "0.1.0",
    protocolVersion: 2,
    epoch,
    labels: { zone: "a'b" },
    capabilities: [{ name: "ebpf", available: false, reason: 'no "BTF"' }],
  };
  const golden = {
    agent_id: "web-1-0badcafe",
    hostname: "web-1",
    machine_id: "4c4c4544",
    boot_id: "b1",
    os: "Debian 12",
    kernel: "6.1.0",
    arch: "x64",
    version: "0.1.0",
    protocol_version: 2,
    epoch,
    labels: `{"zone":"a'b"}`,
    capabilities: String.raw`[{"name":"ebpf","available":false,"reason":"no \"BTF\""}]`,
    first_seen_at: nowUs,
    last_seen_at: nowUs,
    registered_at: nowUs,
    revoked_at: null,
    pull_lag_ms: null,
  };

  it("has golden rows", async () => {
    await upsertAgent(store, agent, nowUs);
    expect(await storedRows(store, "registry.agents")).toEqual([golden]);
  });

  it("is read back", async () => {
    const times = { firstSeenAt: nowUs, lastSeenAt: nowUs, registeredAt: nowUs, revokedAt: null, pullLagMs: null };
    expect(await listAgents(await reopened({ "registry.agents": [golden] }))).toEqual([{ ...agent, ...times }]);
  });
});

describe("registry.tokens, agent_conflicts and events", () => {
  const token: TokenRecord = {
    id: "tok-1a2b3c",
    kind: "join",
    secretSha256: "53c90ed83c02ae89d5aa748975ed3b64af5e67792f82a5a9792659be215a5255",
    permission: "admin",
    createdAt: nowUs,
    expiresAt: nowUs + 1_000_000,
    usesLeft: 3,
    revokedAt: null,
    note: "rack 7",
  };
  const conflict = { agentId: "web-1-0badcafe", hostA: "web-1", hostB: "web-2", noticedAt: nowUs };
  const event = { at: nowUs, kind: "agent-joined", agentId: null, message: "joined", details: { port: 1, name: "ü" } };
  const golden = {
    "registry.tokens": [
      {
        id: "tok-1a2b3c",
        kind: "join",
        secret_sha256: "53c90ed83c02ae89d5aa748975ed3b64af5e67792f82a5a9792659be215a5255",
        permission: "admin",
        created_at: nowUs,
        expires_at: nowUs + 1_000_000,
        uses_left: 3,
        revoked_at: null,
        note: "rack 7",
      },
    ],
    "registry.agent_conflicts": [{ agent_id: "web-1-0badcafe", host_a: "web-1", host_b: "web-2", noticed_at: nowUs }],
    "registry.events": [{ occurred_at: nowUs, kind: "agent-joined", agent_id: null, message: "joined", details: '{"port":1,"name":"ü"}' }],
  };

  it("have golden rows", async () => {
    await insertToken(store, token);
    await recordConflict(store, conflict);
    await recordEvent(store, event);
    for (const [table, rows] of Object.entries(golden)) expect(await storedRows(store, table)).toEqual(rows);
  });

  it("are read back", async () => {
    await reopened(golden);
    expect(await listTokens(store)).toEqual([token]);
    expect(await useToken(store, token.id, token.secretSha256, nowUs)).toEqual({ kind: "accepted", token: { ...token, usesLeft: 2 } });
    expect(await listConflicts(store)).toEqual([conflict]);
    expect(await listEvents(store, 0)).toEqual([event]);
  });
});

describe("registry.agent_runtime and its history", () => {
  const facts: RuntimeFacts = {
    platform: { os: "linux", arch: "amd64", osVersion: "Ubuntu 22.04", kernel: "6.5.0-35-generic" },
    runtimeType: "k8s-sidecar",
    sidecarMode: "cri",
    containerRuntime: { socketPath: "/run/containerd/containerd.sock", type: "containerd", version: "1.7.0" },
    capabilities: [
      { name: "exec", available: true, reason: "", fix: "" },
      { name: "shell", available: false, reason: "no terminal", fix: "mount one" },
    ],
    visibility: { allPids: false, allContainers: false, podScope: true, containers: ["app"], namespace: "pod", moreContainers: 0 },
    detectedAt: "2026-01-01T00:00:00.000Z",
    version: "0.1.0",
    evidence: ["KUBERNETES_SERVICE_HOST is set"],
    isOverridden: false,
  };
  const shared = {
    agent_id: "web-1-0badcafe",
    runtime_type: "k8s-sidecar",
    sidecar_mode: "cri",
    cri_type: "containerd",
    cri_version: "1.7.0",
    can_connect: false,
    can_exec: true,
    can_shell: false,
    can_run: false,
  };
  const golden = {
    "registry.agent_runtime": [
      {
        ...shared,
        platform_os: "linux",
        os_version: "Ubuntu 22.04",
        detected_at: nowUs,
        updated_at: nowUs,
        problems: '["too old"]',
        context:
          '{"platform":{"os":"linux","arch":"amd64","osVersion":"Ubuntu 22.04","kernel":"6.5.0-35-generic"},"runtimeType":"k8s-sidecar","sidecarMode":"cri","containerRuntime":{"socketPath":"/run/containerd/containerd.sock","type":"containerd","version":"1.7.0"},"capabilities":[{"name":"exec","available":true,"reason":"","fix":""},{"name":"shell","available":false,"reason":"no terminal","fix":"mount one"}],"visibility":{"allPids":false,"allContainers":false,"podScope":true,"containers":["app"],"namespace":"pod","moreContainers":0},"detectedAt":"2026-01-01T00:00:00.000Z","version":"0.1.0","evidence":["KUBERNETES_SERVICE_HOST is set"],"isOverridden":false}',
      },
    ],
    "registry.agent_runtime_history": [{ ...shared, changed_at: nowUs, change_reason: "registration", changes: "first" }],
  };
  const record = { agentId: "web-1-0badcafe", facts, problems: ["too old"], updatedAt: nowUs };

  it("have golden rows", async () => {
    await storeRuntime(store, record, { reason: "registration", changes: "first" });
    for (const [table, rows] of Object.entries(golden)) expect(await storedRows(store, table)).toEqual(rows);
  });

  it("are read back", async () => {
    await reopened(golden);
    expect(await loadRuntimes(store)).toEqual([record]);
    expect(await listRuntimeHistory(store, "web-1-0badcafe", 10)).toEqual([
      {
        agentId: "web-1-0badcafe",
        changedAt: nowUs,
        runtimeType: "k8s-sidecar",
        sidecarMode: "cri",
        criType: "containerd",
        criVersion: "1.7.0",
        reason: "registration",
        changes: "first",
      },
    ]);
  });
});

describe("registry.deployments and service_builds", () => {
  const build: KnownBuild = {
    service: "api",
    foundBy: "span",
    build: "3f2a",
    version: "1.4.2",
    firstSeenMs: nowMs - hourMs,
    lastSeenMs: nowMs,
    isRunning: true,
    places: [{ agentId: "web-1-0badcafe", startedMs: nowMs - hourMs, lastMs: nowMs, instances: 2 }],
  };
  const deployment: DeploymentRecord = {
    id: "dep-0123456789",
    service: "api",
    startedMs: nowMs - hourMs,
    noticedMs: nowMs,
    foundBy: ["build", "version"],
    build: "3f2a",
    previousBuild: null,
    version: "1.4.2",
    previousVersion: "1.4.1",
    note: "",
    markedBy: null,
    places: [{ agentId: "web-1-0badcafe", atMs: nowMs - hourMs }],
    looks: 2,
    isComplete: false,
    verdict: "no-change",
    evaluatedMs: nowMs,
    report: '{"source":"hooks"}',
    state: "rolling",
    shares: [{ build: "3f2a", version: "1.4.2", instances: 2, agents: 1, requests: null }],
    endedMs: nowMs - hourMs / 2,
  };
  const golden = {
    "registry.service_builds": [
      {
        service: "api",
        found_by: "span",
        build: "3f2a",
        version: "1.4.2",
        first_seen: nowUs - 3_600_000_000,
        last_seen: nowUs,
        is_running: true,
        places: '[{"agentId":"web-1-0badcafe","startedMs":1767222000000,"lastMs":1767225600000,"instances":2}]',
      },
    ],
    "registry.deployments": [
      {
        id: "dep-0123456789",
        service: "api",
        started_at: nowUs - 3_600_000_000,
        noticed_at: nowUs,
        found_by: "build,version",
        build: "3f2a",
        previous_build: null,
        version: "1.4.2",
        previous_version: "1.4.1",
        note: "",
        marked_by: null,
        places: '[{"agentId":"web-1-0badcafe","atMs":1767222000000}]',
        looks: 2,
        is_complete: false,
        verdict: "no-change",
        evaluated_at: nowUs,
        report: '{"source":"hooks"}',
        state: "rolling",
        shares: '[{"build":"3f2a","version":"1.4.2","instances":2,"agents":1,"requests":null}]',
        ended_at: nowUs - 1_800_000_000,
      },
    ],
  };

  it("have golden rows", async () => {
    await saveDeployments(store, { builds: [build], deployments: [deployment], events: [] }, nowMs);
    for (const [table, rows] of Object.entries(golden)) expect(await storedRows(store, table)).toEqual(rows);
  });

  it("are read back", async () => {
    await reopened(golden);
    expect(await loadKnownBuilds(store)).toEqual([build]);
    expect(await listDeployments(store, { limit: 10 })).toEqual([deployment]);
  });
});

describe("internal.sources and gaps", () => {
  const golden = {
    "internal.sources": [
      {
        source: 1,
        agent_id: "web-1-0badcafe",
        epoch,
        first_pull: nowUs,
        last_pull: nowUs,
        cursors: '{"sample":{"seq":6,"nextSeq":9}}',
        losses: '{"sample disk-full":4}',
      },
    ],
    "internal.gaps": [
      {
        noticed_at: nowUs,
        agent_id: "web-1-0badcafe",
        signal: "sample",
        epoch,
        reason: "before-first-pull",
        rows: 4,
        first_seq: 1,
        last_seq: 4,
      },
      {
        noticed_at: nowUs,
        agent_id: "web-1-0badcafe",
        signal: "sample",
        epoch,
        reason: "disk-full",
        rows: 4,
        first_seq: null,
        last_seq: null,
      },
    ],
  };

  it("have golden rows", async () => {
    const batch = encodeBatch(batchFromRows(sample, [sampleRow(0, nowUs), sampleRow(1, nowUs)]), 5);
    const slice = { signal: "sample", oldestSeq: 5, nextSeq: 9, batch };
    const losses = [{ signal: "sample", reason: "disk-full", rows: 4 }];
    await store.applyPulls([{ agentId: "web-1-0badcafe", epoch, slices: [slice], losses }]);
    for (const [table, rows] of Object.entries(golden)) expect(await storedRows(store, table)).toEqual(rows);
  });

  it("are read back", async () => {
    await reopened(golden);
    expect(store.checkpoints("web-1-0badcafe")).toEqual({ epoch, afterSeq: new Map([["sample", 6]]) });
    expect((await store.gaps()).map(({ reason, rows, firstSeq }) => [reason, rows, firstSeq]).sort()).toEqual([
      ["before-first-pull", 4, 1],
      ["disk-full", 4, null],
    ]);
    // Losses that were already counted are not counted again.
    const losses = [{ signal: "sample", reason: "disk-full", rows: 5 }];
    await store.applyPulls([{ agentId: "web-1-0badcafe", epoch, slices: [], losses }]);
    expect((await store.gaps()).map(({ rows }) => rows).sort()).toEqual([1, 4, 4]);
  });
});
