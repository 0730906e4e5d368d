/** Scans for services, instances and connections, and turns each scan into rows. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryRequest, DiscoveryScan, DiscoveryScanner } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import { ConnectionRows, type TimedKernelBatch } from "../connections/connection-rows.ts";
import type { ConnectionRow } from "../connections/connection-tracks.ts";
import type { KernelBatch, KernelConnections } from "../connections/kernel-connections.ts";
import type { ManagedServices } from "../managed/managed-services.ts";
import { createServiceNamer, noTrafficNames, type ServiceNamer, type TrafficNames } from "../naming/service-namer.ts";
import { type DiscoveryGaps, discoveryNotes } from "./discovery-notes.ts";
import { buildInstances, instanceRow, type ServiceInstanceRow } from "./service-instances.ts";
import { createServiceLifecycle, type EventRow } from "./service-lifecycle.ts";

/** Rows of one scan, by signal; all have the same timestamp. */
export interface DiscoveryRows {
  instances: ServiceInstanceRow[];
  connections: ConnectionRow[];
  events: EventRow[];
}

/** Receives every scan. While it wants scans, they run even with service discovery disabled. */
export interface ScanWatcher {
  isWanted(): boolean;
  scanned(scan: DiscoveryScan, namer: ServiceNamer): void;
}

export interface DiscoveryCollectorOptions {
  scanner: DiscoveryScanner;
  /** Read before each scan, so that a reload takes effect. */
  config: () => AgentDiscoveryConfig;
  /** Services registered by users; their names win over all others. */
  managed: ManagedServices;
  traffic?: TrafficNames;
  watcher?: ScanWatcher;
  /** Connection events from the kernel; absent: scans only. */
  kernel?: KernelConnections;
  ticksPerS: number;
  clock: Clock;
  log: Logger;
}

export interface DiscoveryCollector {
  /** One at a time. Rejects only when aborted. `reportAll` reports every instance before its interval is over. */
  sample(signal?: AbortSignal, reportAll?: boolean): Promise<DiscoveryRows>;
  /** Rows of kernel events since the last scan; empty while a scan is running. */
  kernelConnections(): ConnectionRow[];
  /** Hashes executables without a build id; call after each sample, when its rows are stored. */
  hashBuilds(signal?: AbortSignal): Promise<void>;
  /** Delay before the next scan: short while a process that exited may be restarting. */
  nextDelayMs(): number;
  /** Sentences about what the last scan could not see. */
  notes(): string[];
}

/** A restart shows within this time; otherwise the process has exited for good. */
const restartWaitMs = 3_000;
/** The boot time is computed from two clocks; smaller differences are noise. */
const bootNoiseMs = 1_000;

const noKernel = "kernel events are not available";

const nothing: DiscoveryRows = { instances: [], connections: [], events: [] };

export function createDiscoveryCollector(options: DiscoveryCollectorOptions): DiscoveryCollector {
  return new ScanCollector(options);
}

/** A finished scan. */
interface MarkedScan {
  scan: DiscoveryScan;
  time: SampleTime;
  /** Kernel events are separated by its start and end. */
  isMarked: boolean;
}

class ScanCollector implements DiscoveryCollector {
  readonly #options: DiscoveryCollectorOptions;
  readonly #connections: ConnectionRows;
  readonly #lifecycle = createServiceLifecycle();
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

  kernelConnections(): ConnectionRow[] {
    const { kernel } = this.#options;
    const last = this.#last;
    if (!kernel || !last || kernel.isScanning) return [];
    return this.#connections.between(last.scan, last.namer, this.#now(), this.#timed(kernel.take()));
  }

  async hashBuilds(signal?: AbortSignal): Promise<void> {
    const hashed = await this.#options.scanner.hashBuilds(signal);
    if (hashed > 0) this.#options.log.debug("executables hashed", { files: hashed });
  }

  nextDelayMs(): number {
    return Math.min(this.#options.config().scanIntervalMs, this.#lifecycle.awaitsRestart ? restartWaitMs : Number.POSITIVE_INFINITY);
  }

  notes(): string[] {
    const { kernel } = this.#options;
    return this.#gaps ? discoveryNotes({ ...this.#gaps, kernelProblem: kernel ? kernel.problem() : noKernel }) : [];
  }

  /** Marks start and end of the scan in the stream of kernel events, so that each connection is counted once. */
  async #scan(config: AgentDiscoveryConfig, signal?: AbortSignal): Promise<MarkedScan> {
    const { kernel, scanner } = this.#options;
    const hasBegun = isTracking(config) && (await kernel?.beginScan(signal)) === true;
    const time = this.#now();
    let isMarked = false;
    let scan: DiscoveryScan;
    try {
      scan = await scanner.scan({ ...requestOf(config), rules: this.#rulesOf(config) }, signal);
    } finally {
      if (hasBegun) isMarked = (await kernel?.endScan(signal)) === true;
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
    this.#logServices(new Set(instances.map(({ name }) => name.service)).size);
    const isDue = this.#isReportDue(time.mono_ms, config) || reportAll;
    const batch = isTracking(config) && isMarked && kernel ? this.#timed(kernel.take()) : undefined;
    this.#last = { scan, namer };
    return {
      instances: isDue ? instances.map((instance) => instanceRow(instance, scan, managed, time, this.#bootedAtMs, ticksPerS)) : [],
      connections: isTracking(config) ? this.#connections.of(scan, namer, time, batch) : [],
      events: this.#lifecycle.eventsOf(instances, scan, time),
    };
  }

  #logServices(found: number): void {
    if (found !== this.#services) this.#options.log.debug("services changed", { before: this.#services, now: found });
    this.#services = found;
  }

  #isReportDue(monotonicMs: number, config: AgentDiscoveryConfig): boolean {
    // Timers are late rather than early: a scan slightly before its report is due is the one to report.
    if (monotonicMs < this.#nextReportMs - config.scanIntervalMs / 10) return false;
    this.#nextReportMs = monotonicMs + config.reportIntervalMs;
    return true;
  }

  #timed(batch: KernelBatch): TimedKernelBatch {
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

/** Returns the same object for the same config: with a new one the scanner re-reads every process. */
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
