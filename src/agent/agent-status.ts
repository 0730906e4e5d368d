/** Builds the reply to `GET /v1/status`. */

import type { Clock } from "../base/clock.ts";
import type { RuntimeFacts } from "../model/runtime-facts.ts";
import type { AgentStore } from "../store/agent/index.ts";
import type { StoreStats } from "../store/tables/index.ts";
import type { AgentColonyLink, AgentHostSummary, AgentOtlpStatus, AgentServiceStatus, AgentStatus } from "../tools/index.ts";
import type { ServiceFacts } from "./discovery/service-facts.ts";
import type { ColonyLink } from "./link/colony-link.ts";
import { type ManagedServices, protocolOf } from "./managed/managed-services.ts";
import type { TrafficReadings } from "./traffic/traffic-collector.ts";
import { trafficStatus } from "./traffic/traffic-status.ts";

export interface AgentStatusSources {
  agentId: string;
  version: string;
  hostname: string;
  store: AgentStore;
  /** Why nothing can be stored; empty while rows are stored. */
  writeProblem: () => string;
  link: Pick<ColonyLink, "state" | "endpoint" | "colonyId">;
  managed: ManagedServices;
  facts: Pick<ServiceFacts, "newestScan">;
  traffic: () => TrafficReadings;
  otlp: () => AgentOtlpStatus;
  /** Sentences about what the collectors could not see. */
  notes: () => string[];
  capabilities: { name: string; available: boolean; reason: string }[];
  runtime: () => RuntimeFacts;
  /** The store's directory. */
  directory: string;
  clock: Clock;
  startedAtMs: number;
  startedMonotonicMs: number;
}

/** Services in one response; `total` has the full number. */
const maxServices = 1_000;

/** Reads the store for each request: the status is never older than the last stored sample. */
export async function readAgentStatus(sources: AgentStatusSources): Promise<AgentStatus> {
  const { store, clock } = sources;
  const [stats, host, found, oldestAt, senders] = await Promise.all([
    store.stats(),
    readHost(store),
    readServices(sources),
    readOldest(store),
    readOtelServices(store, clock.wallMs()),
  ]);
  const services = found.map((service) => ({ ...service, sdk: senders.get(service.name) ?? null }));
  const upMs = Math.max(1, clock.monotonicMs() - sources.startedMonotonicMs);
  const { user, system } = process.cpuUsage();
  return {
    agentId: sources.agentId,
    version: sources.version,
    pid: process.pid,
    hostname: sources.hostname,
    startedAt: new Date(sources.startedAtMs).toISOString(),
    colony: describeLink(sources.link),
    runtime: sources.runtime(),
    store: {
      directory: sources.directory,
      epoch: store.epoch,
      fileBytes: fileBytesOf(stats),
      rowsBySignal: stats.rows,
      ...(oldestAt === undefined ? {} : { oldestAt }),
    },
    losses: store.losses(),
    capabilities: sources.capabilities,
    host,
    services: { total: services.length, items: services.slice(0, maxServices) },
    process: { cpuRatio: (user + system) / 1_000 / upMs, rssBytes: process.memoryUsage.rss() },
    traffic: trafficStatus(sources.traffic()),
    otlp: sources.otlp(),
    notes: [...writeNotes(sources), ...recoveryNotes(store), ...sources.notes()],
  };
}

function describeLink({ state, endpoint, colonyId }: AgentStatusSources["link"]): AgentColonyLink {
  return {
    id: colonyId ?? null,
    endpoint: endpoint ?? null,
    state: state.kind,
    since: new Date(state.sinceMs).toISOString(),
    ...("lastError" in state && state.lastError !== undefined ? { lastError: state.lastError } : {}),
    ...(state.kind === "connected" ? { certificateExpiresAt: new Date(state.certificateExpiresAtMs).toISOString() } : {}),
  };
}

function fileBytesOf(stats: StoreStats): number {
  return stats.fileBytes + stats.walBytes;
}

/** The newest row of the `host` signal; null before the first sample. */
async function readHost(store: AgentStore): Promise<AgentHostSummary | null> {
  const [row] = await store.query(
    "SELECT time AS at_us, cpu_busy_ratio, cpu_count, mem_available_bytes, mem_total_bytes, load_1m FROM host ORDER BY seq DESC LIMIT 1",
  );
  if (!row) return null;
  const total = Number(row["mem_total_bytes"]);
  return {
    sampledAt: new Date(Number(row["at_us"]) / 1_000).toISOString(),
    cpuBusyRatio: Number(row["cpu_busy_ratio"]),
    cpuCount: Number(row["cpu_count"]),
    memUsedRatio: total > 0 ? 1 - Number(row["mem_available_bytes"]) / total : 0,
    memTotalBytes: total,
    load1m: Number(row["load_1m"]),
  };
}

/** The newest scan with the checks of registered services, including those without a listener. */
export async function readServices({ facts, managed }: Pick<AgentStatusSources, "facts" | "managed">): Promise<AgentServiceStatus[]> {
  const found = await facts.newestScan();
  // The same port in another network namespace is another service; the next scan separates them.
  const managedPorts = new Set(found.filter((service) => service.status === "managed").map((service) => service.port));
  const scanned = found.map((service): AgentServiceStatus => {
    const entry = service.port === null ? undefined : managed.byPort(service.port);
    if (entry === undefined || protocolOf(entry) !== service.protocol) return { ...service, status: "discovered" };
    if (service.status === "discovered" && managedPorts.has(service.port)) return service;
    const check = managed.healthOf(entry.port) ?? null;
    return { ...service, name: entry.name, status: "managed", method: "manual", confidence: 1, check };
  });
  const seen = new Set(scanned.filter((service) => service.status === "managed").map((service) => service.port));
  const absent = managed.list().filter((entry) => !seen.has(entry.port));
  const rest = absent.map(
    (entry): AgentServiceStatus => ({
      name: entry.name,
      port: entry.port,
      protocol: protocolOf(entry),
      status: "managed",
      method: "manual",
      confidence: 1,
      instances: 0,
      pid: null,
      exe: null,
      build: null,
      check: managed.healthOf(entry.port) ?? null,
    }),
  );
  return [...scanned, ...rest].sort((a, b) => a.name.localeCompare(b.name) || (a.port ?? 0) - (b.port ?? 0));
}

async function readOldest(store: AgentStore): Promise<string | undefined> {
  const [row] = await store.query("SELECT min(time) AS at_us FROM host");
  const atUs = row?.["at_us"] ?? null;
  return atUs === null ? undefined : new Date(Number(atUs) / 1_000).toISOString();
}

function writeNotes({ writeProblem }: Pick<AgentStatusSources, "writeProblem">): string[] {
  return writeProblem() === "" ? [] : [`Nothing can be stored: ${writeProblem()}`];
}

function recoveryNotes({ opened }: AgentStore): string[] {
  if (opened.how !== "recovered") return [];
  return [`The store was damaged (${opened.reason}) and was replaced by an empty one; the damaged file is kept at ${opened.movedTo}`];
}

/** Services that sent spans within this time count as instrumented. */
const sdkWindowMs = 3_600_000;
/** Newest first; segments are merged, so an hour of a busy host has fewer. */
const maxSdkSegments = 500;

/** Services that sent spans in the last hour, with a label. Log records do not count: they are also read from files. */
async function readOtelServices(store: Pick<AgentStore, "query" | "segments">, nowMs: number): Promise<ReadonlyMap<string, string>> {
  // Without segments there is no manifest table.
  if (!store.segments) return new Map();
  const rows = await store.query(
    `SELECT DISTINCT services FROM (SELECT services FROM segment.manifest
     WHERE signal = 'span' AND state = 'stored' AND services IS NOT NULL AND max_time >= ? ORDER BY number DESC LIMIT ${maxSdkSegments})`,
    [(nowMs - sdkWindowMs) * 1_000],
  );
  const services = rows.flatMap((row) => JSON.parse(String(row["services"])) as string[]);
  return new Map(services.map((service) => [service, "OpenTelemetry (spans)"]));
}
