/** Finds services, their instances and connections, and what becomes of them. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentDiscoveryConfig } from "../config/index.ts";
import type { DiscoveryRequest, DiscoveryScan, DiscoveryScanner } from "../host/index.ts";
import type { SampleTime } from "../store/index.ts";
import { ConnectionRows, type KernelNews } from "./connection-rows.ts";
import type { ConnectionRow } from "./connection-tracks.ts";
import { discoveryNotes } from "./discovery-notes.ts";
import type { KernelBatch, KernelConnections } from "./kernel-connections.ts";
import type { ManagedServices } from "./managed-services.ts";
import { createProcessLife, type EventRow } from "./process-life.ts";
import { buildInstances, instanceRow, type ServiceInstanceRow } from "./service-instances.ts";
import { createServiceNamer, type ServiceNamer } from "./service-namer.ts";
import { noTrafficNames, type TrafficNames } from "./traffic-names.ts";

/** What one scan made, by signal; all rows carry the same time. */
export interface DiscoveryRows {
  instances: ServiceInstanceRow[];
  connections: ConnectionRow[];
  events: EventRow[];
}

/** Somebody who needs to know who is who on this host, also when services are not looked for. */
export interface ScanWatcher {
  isWanted(): boolean;
  scanned(scan: DiscoveryScan, namer: ServiceNamer): void;
}

export interface DiscoveryCollectorOptions {
  scanner: DiscoveryScanner;
  /** Read before each scan, so that a reloaded config counts at once. */
  config: () => AgentDiscoveryConfig;
  /** What users say about ports; beats every other name. */
  managed: ManagedServices;
  traffic?: TrafficNames;
  watcher?: ScanWatcher;
  /** What the kernel tells about connections; absent: scans are all there is. */
  kernel?: KernelConnections;
  ticksPerS: number;
  clock: Clock;
  log: Logger;
}

export interface DiscoveryCollector {
  /** One at a time. Rejects only when the signal is aborted. `reportAll` writes every instance whatever the interval. */
  sample(signal?: AbortSignal, reportAll?: boolean): Promise<DiscoveryRows>;
  /** What the kernel told since the last scan, for those who do not want to wait for the next; empty while one is under way. */
  connectionNews(): ConnectionRow[];
  /** Names builds that had to be hashed; to be called after each sample, when its rows are stored. */
  settle(signal?: AbortSignal): Promise<void>;
  /** How long to wait for the next scan: sooner when something vanished and may be on its way back. */
  nextDelayMs(): number;
  /** What the last scan could not see, ready to print. */
  notes(): string[];
}

/** A restart takes a moment; this tells it from an end. */
const lookAgainMs = 3_000;
/** The boot time is computed from two clocks; a smaller difference is their noise. */
const bootNoiseMs = 1_000;

const noKernel = "nothing listens to the kernel";

const nothing: DiscoveryRows = { instances: [], connections: [], events: [] };

export function createDiscoveryCollector(options: DiscoveryCollectorOptions): DiscoveryCollector {
  const { scanner, managed, clock, log, traffic = noTrafficNames } = options;
  const connections = new ConnectionRows({ clock });
  const life = createProcessLife();
  const rulesOf = createRules();
  let notes: string[] = [];
  let nextReportMs = Number.NEGATIVE_INFINITY;
  let bootedAtMs = Number.NaN;
  let services = -1;
  let last: { scan: DiscoveryScan; namer: ServiceNamer } | undefined;
  let scanEndedNs = 0n;

  const updateBootTime = (wallMs: number, uptimeS: number): void => {
    const bootMs = wallMs - uptimeS * 1_000;
    if (!(Math.abs(bootMs - bootedAtMs) < bootNoiseMs)) bootedAtMs = bootMs;
  };

  const isReportDue = (monotonicMs: number, config: AgentDiscoveryConfig): boolean => {
    // Timers are late rather than early: a scan that comes a little before its report is the one to report.
    if (monotonicMs < nextReportMs - config.scanIntervalMs / 10) return false;
    nextReportMs = monotonicMs + config.reportIntervalMs;
    return true;
  };

  const now = (): SampleTime => ({ at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) });

  const kernelNews = (batch: KernelBatch): KernelNews => {
    const [wallUs, monotonicNs] = [Math.round(clock.wallMs() * 1_000), process.hrtime.bigint()];
    const times = { wallUs: (ns: bigint): number => wallUs - Math.max(0, Math.round(Number(monotonicNs - ns) / 1_000)), scanEndedNs };
    return { ...batch, times };
  };

  /** Marks both ends of the scan for the kernel, so that each connection is told once. */
  const scanMarked = async (config: AgentDiscoveryConfig, signal?: AbortSignal) => {
    const isTracking = config.enabled && config.methods.includes("connection_tracking");
    let isMarked = isTracking && (await options.kernel?.beginScan(signal)) === true;
    const time = now();
    try {
      return { time, scan: await scanner.scan({ ...requestOf(config), rules: rulesOf(config) }, signal), isMarked: () => isMarked };
    } finally {
      if (isMarked) isMarked = (await options.kernel?.endScan(signal)) === true;
      scanEndedNs = process.hrtime.bigint();
    }
  };

  const rowsOf = (
    scan: DiscoveryScan,
    config: AgentDiscoveryConfig,
    time: SampleTime,
    reportAll: boolean,
    isMarked: boolean,
  ): DiscoveryRows => {
    const namer = createServiceNamer({ scan, config, managed, traffic });
    options.watcher?.scanned(scan, namer);
    const { instances, cut } = buildInstances({ scan, namer, config, managed });
    notes = discoveryNotes({
      limits: scan.limits,
      cutInstances: cut,
      config,
      kernelProblem: options.kernel ? options.kernel.problem() : noKernel,
    });
    const found = new Set(instances.map(({ name }) => name.service)).size;
    if (found !== services) log.debug("services changed", { before: services, now: found });
    services = found;
    const isDue = isReportDue(time.mono_ms, config) || reportAll;
    const isTracking = config.enabled && config.methods.includes("connection_tracking");
    const news = isTracking && isMarked && options.kernel ? kernelNews(options.kernel.take()) : undefined;
    last = { scan, namer };
    return {
      instances: isDue ? instances.map((instance) => instanceRow(instance, scan, managed, time, bootedAtMs, options.ticksPerS)) : [],
      connections: isTracking ? connections.of(scan, namer, time, news) : [],
      events: life.of(instances, scan, time),
    };
  };

  return {
    sample: async (signal, reportAll = false) => {
      const config = options.config();
      if (!config.enabled && managed.list().length === 0 && !managed.launched?.().size && options.watcher?.isWanted() !== true) {
        notes = [];
        return nothing;
      }
      const { time, scan, isMarked } = await scanMarked(config, signal);
      updateBootTime(time.at / 1_000, scan.uptimeS);
      return rowsOf(scan, config, time, reportAll, isMarked());
    },
    connectionNews: () => {
      const { kernel } = options;
      if (!kernel || !last || kernel.isScanning) return [];
      return connections.between(last.scan, last.namer, now(), kernelNews(kernel.take()));
    },
    settle: async (signal) => {
      const hashed = await scanner.hashBuilds(signal);
      if (hashed > 0) log.debug("executables hashed", { files: hashed });
    },
    nextDelayMs: () => Math.min(options.config().scanIntervalMs, life.isWaiting ? lookAgainMs : Number.POSITIVE_INFINITY),
    notes: () => notes,
  };
}

function requestOf(config: AgentDiscoveryConfig): Omit<DiscoveryRequest, "rules"> {
  return { protocols: config.protocols, connections: config.enabled && config.methods.includes("connection_tracking") };
}

/** The same object as long as the config is: another one makes the scanner read everything anew. */
function createRules(): (config: AgentDiscoveryConfig) => DiscoveryRequest["rules"] {
  let last: { config: AgentDiscoveryConfig; rules: DiscoveryRequest["rules"] } | undefined;
  return (config) => {
    if (last?.config !== config) {
      const { names, redaction } = config;
      last = {
        config,
        rules: {
          patterns: names.patterns.map(({ pattern, name }) => ({ pattern: new RegExp(pattern), name })),
          kubernetesLabel: names.kubernetesLabel,
          redaction: { names: redaction.names, patterns: redaction.patterns.map((source) => new RegExp(source)) },
        },
      };
    }
    return last.rules;
  };
}
