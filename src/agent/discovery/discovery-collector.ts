/** Finds services, their instances and connections, and what becomes of them. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryRequest, DiscoveryScan, DiscoveryScanner } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import { ConnectionRows, type KernelNews } from "../connections/connection-rows.ts";
import type { ConnectionRow } from "../connections/connection-tracks.ts";
import type { KernelBatch, KernelConnections } from "../connections/kernel-connections.ts";
import type { ManagedServices } from "../managed/managed-services.ts";
import { createServiceNamer, type ServiceNamer } from "../naming/service-namer.ts";
import { noTrafficNames, type TrafficNames } from "../naming/traffic-names.ts";
import { type DiscoveryGaps, discoveryNotes } from "./discovery-notes.ts";
import { createProcessLife, type EventRow } from "./process-life.ts";
import { buildInstances, instanceRow, type ServiceInstanceRow } from "./service-instances.ts";

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
  return new ScanCollector(options);
}

/** A scan that has ended, and what is to be known of the time it took. */
interface MarkedScan {
  scan: DiscoveryScan;
  time: SampleTime;
  /** The kernel knows of its begin and its end. */
  isMarked: boolean;
}

class ScanCollector implements DiscoveryCollector {
  readonly #options: DiscoveryCollectorOptions;
  readonly #connections: ConnectionRows;
  readonly #life = createProcessLife();
  readonly #rulesOf = createRules();
  /** Of the last scan. */
  #gaps: Omit<DiscoveryGaps, "kernelProblem"> | undefined;
  #nextReportMs = Number.NEGATIVE_INFINITY;
  #bootedAtMs = Number.NaN;
  #services = -1;
  #last: { scan: DiscoveryScan; namer: ServiceNamer } | undefined;
  #scanEndedNs = 0n;

  constructor(options: DiscoveryCollectorOptions) {
    this.#options = options;
    this.#connections = new ConnectionRows({ clock: options.clock });
  }

  async sample(signal?: AbortSignal, reportAll = false): Promise<DiscoveryRows> {
    const { managed, watcher } = this.#options;
    const config = this.#options.config();
    if (!config.enabled && managed.list().length === 0 && !managed.launched?.().size && watcher?.isWanted() !== true) {
      this.#gaps = undefined;
      return nothing;
    }
    const marked = await this.#scan(config, signal);
    this.#updateBootTime(marked.time.at / 1_000, marked.scan.uptimeS);
    return this.#rowsOf(marked, config, reportAll);
  }

  connectionNews(): ConnectionRow[] {
    const { kernel } = this.#options;
    const last = this.#last;
    if (!kernel || !last || kernel.isScanning) return [];
    return this.#connections.between(last.scan, last.namer, this.#now(), this.#kernelNews(kernel.take()));
  }

  async settle(signal?: AbortSignal): Promise<void> {
    const hashed = await this.#options.scanner.hashBuilds(signal);
    if (hashed > 0) this.#options.log.debug("executables hashed", { files: hashed });
  }

  nextDelayMs(): number {
    return Math.min(this.#options.config().scanIntervalMs, this.#life.isWaiting ? lookAgainMs : Number.POSITIVE_INFINITY);
  }

  notes(): string[] {
    const { kernel } = this.#options;
    return this.#gaps ? discoveryNotes({ ...this.#gaps, kernelProblem: kernel ? kernel.problem() : noKernel }) : [];
  }

  /** Marks both ends of the scan for the kernel, so that each connection is told once. */
  async #scan(config: AgentDiscoveryConfig, signal?: AbortSignal): Promise<MarkedScan> {
    const { kernel, scanner } = this.#options;
    const isBegun = isTracking(config) && (await kernel?.beginScan(signal)) === true;
    const time = this.#now();
    let isMarked = false;
    let scan: DiscoveryScan;
    try {
      scan = await scanner.scan({ ...requestOf(config), rules: this.#rulesOf(config) }, signal);
    } finally {
      if (isBegun) isMarked = (await kernel?.endScan(signal)) === true;
      this.#scanEndedNs = process.hrtime.bigint();
    }
    return { scan, time, isMarked };
  }

  #rowsOf({ scan, time, isMarked }: MarkedScan, config: AgentDiscoveryConfig, reportAll: boolean): DiscoveryRows {
    const { managed, traffic = noTrafficNames, watcher, kernel, ticksPerS } = this.#options;
    const namer = createServiceNamer({ scan, config, managed, traffic });
    watcher?.scanned(scan, namer);
    const { instances, cut } = buildInstances({ scan, namer, config, managed });
    this.#gaps = { limits: scan.limits, cutInstances: cut, config };
    this.#noteServices(new Set(instances.map(({ name }) => name.service)).size);
    const isDue = this.#isReportDue(time.mono_ms, config) || reportAll;
    const news = isTracking(config) && isMarked && kernel ? this.#kernelNews(kernel.take()) : undefined;
    this.#last = { scan, namer };
    return {
      instances: isDue ? instances.map((instance) => instanceRow(instance, scan, managed, time, this.#bootedAtMs, ticksPerS)) : [],
      connections: isTracking(config) ? this.#connections.of(scan, namer, time, news) : [],
      events: this.#life.of(instances, scan, time),
    };
  }

  #noteServices(found: number): void {
    if (found !== this.#services) this.#options.log.debug("services changed", { before: this.#services, now: found });
    this.#services = found;
  }

  #isReportDue(monotonicMs: number, config: AgentDiscoveryConfig): boolean {
    // Timers are late rather than early: a scan that comes a little before its report is the one to report.
    if (monotonicMs < this.#nextReportMs - config.scanIntervalMs / 10) return false;
    this.#nextReportMs = monotonicMs + config.reportIntervalMs;
    return true;
  }

  #kernelNews(batch: KernelBatch): KernelNews {
    const [wallUs, monotonicNs] = [Math.round(this.#options.clock.wallMs() * 1_000), process.hrtime.bigint()];
    const timeUs = (ns: bigint): number => wallUs - Math.max(0, Math.round(Number(monotonicNs - ns) / 1_000));
    return { ...batch, times: { wallUs: timeUs, scanEndedNs: this.#scanEndedNs } };
  }

  #updateBootTime(wallMs: number, uptimeS: number): void {
    const bootMs = wallMs - uptimeS * 1_000;
    if (!(Math.abs(bootMs - this.#bootedAtMs) < bootNoiseMs)) this.#bootedAtMs = bootMs;
  }

  #now(): SampleTime {
    const { clock } = this.#options;
    return { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
  }
}

function isTracking({ enabled, methods }: AgentDiscoveryConfig): boolean {
  return enabled && methods.includes("connection_tracking");
}

function requestOf(config: AgentDiscoveryConfig): Omit<DiscoveryRequest, "rules"> {
  return { protocols: config.protocols, connections: isTracking(config) };
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
