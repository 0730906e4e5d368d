/** The backend of the colony's tools: facts from the registry and the store, not formatted for display. */

import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyConfig } from "../../config/index.ts";
import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";
import { type ColonyStore, listConflicts } from "../../store/colony/index.ts";
import {
  queryConnections,
  queryEdgeRed,
  queryEdges,
  queryEvents,
  queryHosts,
  queryHostsNow,
  queryRed,
  queryServiceCpu,
  queryServices,
  queryTrafficLosses,
} from "../../store/queries/index.ts";
import { runReadOnlySql } from "../../store/sql/index.ts";
import type { AgentInfo, ColonyBackend, ColonyFacts, ColonyInfo, LossFact, StoreInfo } from "../../tools/index.ts";
import type { OpenedAudit } from "../audit/open-audit.ts";
import { createCapture } from "../commands/capture.ts";
import type { Commands } from "../commands/commands.ts";
import { createInspectDatabases } from "../databases/inspect-databases.ts";
import type { DeploymentWatch } from "../deployments/deployment-watch.ts";
import { createDiagnosisBackend } from "../diagnosis/diagnosis-backend.ts";
import type { DiscoveryLoop } from "../discovery/discovery-loop.ts";
import { labelBackend, type ResolvedBackend } from "../identity/label-backend.ts";
import type { ServiceDirectory } from "../identity/service-directory.ts";
import { createIncidentBackend } from "../incidents/incident-backend.ts";
import type { AgentEntry, AgentRegistry } from "../registry/agent-registry.ts";
import { dayOf, legacyPhase, upgradeSteps } from "../registry/legacy-policy.ts";
import { createRuntimeContext } from "../registry/runtime-context.ts";
import type { RuntimeRegistry } from "../registry/runtime-registry.ts";
import type { TokenStore } from "../registry/token-store.ts";
import { AgentQueries } from "./agent-queries.ts";
import { createOwnStoresBackend } from "./own-stores-backend.ts";
import { createSummaryBackend } from "./summary-backend.ts";
import { createTelemetryBackend } from "./telemetry-backend.ts";

export interface ColonyBackendOptions {
  store: ColonyStore;
  registry: AgentRegistry;
  runtimes: RuntimeRegistry;
  tokens: TokenStore;
  config: () => ColonyConfig;
  databaseFile: string;
  version: string;
  startedAtMs: number;
  startedMonotonicMs: number;
  endpoints: () => string[];
  /** Why the last write failed; empty while writes succeed. */
  writeProblem: () => string;
  discovery: Pick<DiscoveryLoop, "catchUp">;
  services: Pick<ServiceDirectory, "names">;
  deployments: Pick<DeploymentWatch, "list" | "mark">;
  commands: Pick<Commands, "execute" | "refuseCommand">;
  audit: OpenedAudit["backend"];
  /** Why external addresses cannot be named; empty when they can. */
  nameProblems: () => string[];
  clock: Clock;
  log: Logger;
}

export function createColonyBackend(options: ColonyBackendOptions): ColonyBackend {
  return labelBackend(createResolvedBackend(options), options.services);
}

function createResolvedBackend(options: ColonyBackendOptions): ResolvedBackend {
  const { store, registry, tokens, clock, config } = options;
  const sinceUs = (sinceMs: number): number => (clock.wallMs() - sinceMs) * 1_000;
  const telemetry = createTelemetryBackend({ store, clock });
  return {
    status: () => readStatus(options),
    agents: () => Promise.resolve([...registry.entries()].map((entry) => agentInfo(entry, options))),
    runtimeContext: createRuntimeContext(options),
    hostsNow: () => queryHostsNow(store, { nowMs: clock.wallMs() }),
    host: (request) => queryHosts(store, { ...request, nowMs: clock.wallMs() }),
    ...topologyBackend(options),
    ...createDiagnosisBackend({ store, clock }),
    ...createIncidentBackend({ store, names: () => options.services.names(), clock }),
    ...createSummaryBackend({ store, discovery: options.discovery, deployments: options.deployments, clock, log: options.log }),
    ...telemetry,
    ...createOwnStoresBackend({ own: telemetry, agents: new AgentQueries(registry), clock }),
    inspectDatabases: createInspectDatabases({ registry, store }),
    capture: createCapture({ registry, log: options.log }),
    execute: options.commands.execute,
    refuseCommand: options.commands.refuseCommand,
    ...options.audit,
    sql: (request, context) => runReadOnlySql(store, { ...request, ...sqlLimits(config(), request), signal: context.signal }),
    events: async (request) => {
      await options.discovery.catchUp();
      return await queryEvents(store, { ...request, nowMs: clock.wallMs() });
    },
    losses: async (request) => {
      const gaps = await store.gaps(request.sinceMs === undefined ? {} : { since: sinceUs(request.sinceMs) });
      return gaps
        .filter((gap) => request.agentIds === undefined || gap.agentId === everything || request.agentIds.includes(gap.agentId))
        .filter((gap) => request.signals === undefined || gap.signal === everything || request.signals.includes(gap.signal))
        .map((gap): LossFact => ({ agentId: gap.agentId, signal: gap.signal, rows: gap.rows, reason: gap.reason, at: isoTime(gap.at) }));
    },
    coverage: async ({ sinceMs }) => {
      const nowMs = clock.wallMs();
      const [unobserved, kept] = await Promise.all([store.unobserved(nowMs - sinceMs), store.kept()]);
      return { unobserved, kept, nowMs };
    },
    createToken: (request) => tokens.create(request),
    tokens: () => tokens.list(),
    revokeToken: async (tokenId) => ({ tokenId, revokedAt: await tokens.revoke(tokenId) }),
    revokeAgent: async (agentId) => {
      await registry.revoke(agentId);
      const record = registry.find(agentId)?.record;
      return { agentId, hostname: record?.hostname ?? "", revokedAt: isoTime(record?.revokedAt ?? clock.wallMs() * 1_000) };
    },
  };
}

type TopologyBackend = Pick<ResolvedBackend, "services" | "edges" | "red" | "edgeRed" | "connections" | "trafficLosses" | "serviceCpu">;

/** Services, who calls whom, and request rates. Queries that name peers first let discovery catch up: the names are its output. */
function topologyBackend({ store, discovery, clock }: ColonyBackendOptions): TopologyBackend {
  const database = store.database.name;
  return {
    services: async (request) => {
      await discovery.catchUp();
      return await queryServices(store, request);
    },
    edges: async (request) => {
      await discovery.catchUp();
      return await queryEdges(store, { ...request, nowMs: clock.wallMs(), database });
    },
    red: (request) => queryRed(store, { ...request, nowMs: clock.wallMs() }),
    edgeRed: async (request) => {
      await discovery.catchUp();
      return await queryEdgeRed(store, { ...request, nowMs: clock.wallMs(), database });
    },
    connections: async (request) => {
      await discovery.catchUp();
      return await queryConnections(store, { ...request, nowMs: clock.wallMs(), database });
    },
    trafficLosses: (request) => queryTrafficLosses(store, { ...request, nowMs: clock.wallMs() }),
    serviceCpu: () => queryServiceCpu(store, { nowMs: clock.wallMs() }),
  };
}

/** In the gap ledger: a loss of all agents or of all signals, such as a damaged file. */
const everything = "*";

/** A request may lower the limits of the config, not raise them. */
function sqlLimits(config: ColonyConfig, request: { maxRows: number; timeoutMs: number }): { maxRows: number; timeoutMs: number } {
  return { maxRows: Math.min(request.maxRows, config.sql.maxRows), timeoutMs: Math.min(request.timeoutMs, config.sql.timeoutMs) };
}

async function readStatus(options: ColonyBackendOptions): Promise<ColonyFacts> {
  const conflicts = await listConflicts(options.store);
  const hostnames = new Map<string, Set<string>>();
  for (const { agentId, hostA, hostB } of conflicts) {
    const names = hostnames.get(agentId) ?? new Set<string>();
    hostnames.set(agentId, names.add(hostA).add(hostB));
  }
  return {
    colony: colonyInfo(options),
    store: await storeInfo(options),
    duplicates: [...hostnames].map(([agentId, names]) => ({ agentId, hostnames: [...names] })),
    nameProblems: options.nameProblems(),
    registration: registrationFacts(options),
  };
}

function registrationFacts({ config, clock }: ColonyBackendOptions): NonNullable<ColonyFacts["registration"]> {
  const { warnPassiveSidecars, legacy } = config().registry;
  return {
    warnPassiveSidecars,
    legacyPhase: legacyPhase(legacy, clock.wallMs()),
    legacyRejectAfter: legacy.rejectAfterMs === null ? null : dayOf(legacy.rejectAfterMs),
    upgradeSteps: [...upgradeSteps],
  };
}

function colonyInfo({ config, version, startedAtMs, startedMonotonicMs, clock, endpoints }: ColonyBackendOptions): ColonyInfo {
  const { id, name, environment } = config();
  return {
    colonyId: id,
    name,
    environment,
    version,
    pid: process.pid,
    startedAt: new Date(startedAtMs).toISOString(),
    uptimeMs: Math.round(clock.monotonicMs() - startedMonotonicMs),
    endpoints: endpoints(),
  };
}

async function storeInfo({ store, config, databaseFile, writeProblem }: ColonyBackendOptions): Promise<StoreInfo> {
  const { usedBytes, walBytes } = await store.database.size();
  return {
    // New rows stay in the WAL until the next checkpoint; retention counts them too.
    usedBytes: usedBytes + walBytes,
    limitBytes: config().store.maxSizeBytes,
    writeProblem: writeProblem(),
    damage: store.database.damage ?? "",
    diskFreeBytes: await freeBytesOf(dirname(databaseFile)),
  };
}

async function freeBytesOf(directory: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    // Some network file systems do not support statfs; null is shown as unknown.
    return null;
  }
}

function agentInfo(
  entry: AgentEntry,
  { registry, runtimes, writeProblem, clock }: Pick<ColonyBackendOptions, "registry" | "runtimes" | "writeProblem" | "clock">,
): AgentInfo {
  const { record, tracker } = entry;
  const runtime = runtimes.of(record.agentId);
  const health = registry.healthOf(entry);
  const silentMs = Math.max(0, Math.round(clock.monotonicMs() - tracker.lastContactMs));
  return {
    agentId: record.agentId,
    hostname: record.hostname,
    health,
    healthReason: health === "healthy" ? "" : reasonFor(entry),
    connected: entry.session?.tunnel !== undefined,
    version: record.version,
    os: record.os,
    kernel: record.kernel,
    arch: record.arch,
    machineId: record.machineId,
    bootId: record.bootId,
    pidNamespace: entry.session?.pidNamespace ?? 0,
    epoch: record.epoch,
    labels: record.labels,
    capabilities: record.capabilities,
    firstSeenAt: isoTime(record.firstSeenAt),
    lastContactAt: isoTime(record.lastSeenAt),
    lastContactAgoMs: silentMs,
    pullLagMs: entry.pullLagMs,
    link: entry.link ?? null,
    storeProblem: storeProblemOf(entry, writeProblem()),
    clockDifferenceMs: entry.clockDifferenceMs,
    certificateExpiresAt: entry.certificateExpiresAtMs === null ? null : new Date(entry.certificateExpiresAtMs).toISOString(),
    revoked: record.revokedAt !== null,
    protocolVersion: record.protocolVersion,
    isLegacy: record.protocolVersion < runtimeProtocolVersion,
    runtime: runtime?.facts ?? null,
    runtimeProblems: runtime?.problems ?? [],
  };
}

/** Without the duration: `lastContactAgoMs` has it. */
function reasonFor(entry: AgentEntry): string {
  if (entry.record.revokedAt !== null) return "revoked";
  if (!entry.session?.tunnel) return "not connected";
  if (entry.storeProblem !== "") return `cannot store rows: ${reasonIn(entry.storeProblem)}`;
  return entry.link?.isSlow ? "slow link" : "connected, but not responding";
}

function storeProblemOf({ storeProblem }: AgentEntry, writeProblem: string): AgentInfo["storeProblem"] {
  if (storeProblem !== "") return { at: "agent", reason: reasonIn(storeProblem) };
  return writeProblem === "" ? null : { at: "colony", reason: reasonIn(writeProblem) };
}

/** Without `Cannot use store "…": `: the reader wants to know which host and why. */
function reasonIn(problem: string): string {
  return problem.replace(/^Cannot \w+ store "[^"]*": /, "");
}

function isoTime(atUs: number): string {
  return new Date(atUs / 1_000).toISOString();
}
