/** Scans for services, instances and connections, and turns each scan into rows. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryRequest, DiscoveryScan, DiscoveryScanner } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import { ConnectionRows, type TimedKernelBatch } from "../connections/connection-rows.ts";
import type { ConnectionRow } from "../connections/connection-tracks.ts";
import type { KernelBatch, KernelConnections } from "../connections/kernel-connections.ts";
import { RecentCallers } from "../connections/recent-callers.ts";
import { ScanLimiter } from "../connections/scan-limiter.ts";
import type { ManagedServices } from "../managed/managed-services.ts";
import { createProcessTimes } from "../naming/process-times.ts";
import type { ServiceIdentities } from "../naming/service-identities.ts";
import { createServiceNamer, noTrafficNames, type ServiceNamer, type TrafficNames } from "../naming/service-namer.ts";
import { type DiscoveryGaps, discoveryNotes } from "./discovery-notes.ts";
import { buildInstances, instanceRow, type ServiceInstance, type ServiceInstanceRow } from "./service-instances.ts";
import { createServiceLifecycle, type EventRow } from "./service-lifecycle.ts";

/** Rows of one scan, by signal; all have the same timestamp. */
export interface DiscoveryRows {
  instances: ServiceInstanceRow[];
  connections: ConnectionRow[];
  events: EventRow[];
}

/** Receives every scan. While it needs scans, they run even with service discovery disabled. */
export interface ScanWatcher {
  isWanted(): boolean;
  scanned(scan: DiscoveryScan, namer: ServiceNamer): void;
  /** Receives the rows of connections, also of those that no scan has seen. */
  connected?(rows: readonly ConnectionRow[]): void;
}

export interface DiscoveryCollectorOptions {
  scanner: DiscoveryScanner;
  /** Read before each scan, so that a reload takes effect. */
  config: () => AgentDiscoveryConfig;
  /** Services registered by users; their names win over all others. */
  managed: ManagedServices;
  traffic?: TrafficNames;
  identities: ServiceIdentities;
  watcher?: ScanWatcher;
  /** Connection events from the kernel; absent: scans only. */
  kernel?: KernelConnections;
  ticksPerS: number;
  /** Default: sends signal 0. */
  isRunning?: (pid: number) => boolean;
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
  /** True when a process of the last scan's instances has exited and a scan may show it; limited like scans for new peers. */
  hasExits(): boolean;
  /** Processes of the last scan's instances. */
  instancePids(): ReadonlySet<number>;
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

/** Keeps what the next scan is compared with. */
class ScanCollector implements DiscoveryCollector {
  readonly #options: DiscoveryCollectorOptions;
  readonly #connections: ConnectionRows;
  readonly #callers: RecentCallers;
  readonly #lifecycle = createServiceLifecycle();
  readonly #rulesOf = createRules();
  /** Of the last scan. */
  #gaps: Omit<DiscoveryGaps, "kernelProblem"> | undefined;
  /** Instances as last reported. */
  #reported = "";
  #instancePids: ReadonlySet<number> = new Set();
  readonly #exitScans: ScanLimiter;
  #nextReportMs = Number.NEGATIVE_INFINITY;
  #bootedAtMs = Number.NaN;
  #services = -1;
  #last: { scan: DiscoveryScan; namer: ServiceNamer } | undefined;
  #scanEndedNs = 0n;

  constructor(options: DiscoveryCollectorOptions) {
    this.#options = options;
    const processTimes = createProcessTimes(options);
    this.#connections = new ConnectionRows({ clock: options.clock, processTimes });
    this.#callers = new RecentCallers(processTimes);
    this.#exitScans = new ScanLimiter(options.clock);
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
    const batch = this.#timed(kernel.take());
    this.#callers.add(batch);
    const rows = this.#connections.between(last.scan, last.namer, this.#now(), batch);
    this.#options.watcher?.connected?.(rows);
    return rows;
  }

  async hashBuilds(signal?: AbortSignal): Promise<void> {
    const hashed = await this.#options.scanner.hashBuilds(signal);
    if (hashed > 0) this.#options.log.debug("executables hashed", { files: hashed });
  }

  hasExits(): boolean {
    const { isRunning = isProcessRunning } = this.#options;
    for (const pid of this.#instancePids) if (!isRunning(pid)) return this.#exitScans.take();
    return false;
  }

  instancePids(): ReadonlySet<number> {
    return new Set(this.#instancePids);
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
    const { managed, traffic = noTrafficNames, identities, watcher, kernel, ticksPerS } = this.#options;
    const namer = createServiceNamer({ scan, config, managed, traffic, identities });
    watcher?.scanned(scan, namer);
    const batch = isTracking(config) && isMarked && kernel ? this.#timed(kernel.take()) : undefined;
    if (batch) this.#callers.add(batch);
    const { instances, cut } = buildInstances({ scan, namer, config, managed, callers: this.#callers.running(scan) });
    this.#gaps = { limits: scan.limits, cutInstances: cut, config };
    this.#logServices(new Set(instances.map(({ name }) => name.service)).size);
    const hasChanged = this.#hasChanged(instances);
    const isDue = this.#isReportDue(time.mono_ms, config) || hasChanged || reportAll;
    this.#last = { scan, namer };
    const connections = isTracking(config) ? this.#connections.of(scan, namer, time, batch) : [];
    watcher?.connected?.(connections);
    return {
      instances: isDue ? instances.map((instance) => instanceRow(instance, scan, managed, time, this.#bootedAtMs, ticksPerS)) : [],
      connections,
      events: this.#lifecycle.eventsOf(instances, scan, time),
    };
  }

  /** A service that started, exited or was renamed is reported with this scan, together with all others: a report is complete. */
  #hasChanged(instances: readonly ServiceInstance[]): boolean {
    const reported = instances.map(instanceKey).sort().join("\n");
    const hasChanged = reported !== this.#reported;
    this.#reported = reported;
    const { isRunning = isProcessRunning } = this.#options;
    // Under another root, pids are those of the host and cannot be signalled from here: exits wait for the next scan.
    const pids = new Set(instances.flatMap(({ facts }) => (facts ? [facts.entry.pid] : [])));
    this.#instancePids = new Set([...pids].filter(isRunning));
    return hasChanged;
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

function instanceKey({ name, isManaged, protocol, port, address, facts }: ServiceInstance): string {
  return `${name.service} ${name.name} ${name.namedBy} ${isManaged} ${protocol} ${port} ${address} ${facts?.entry.pid} ${facts?.entry.startTicks}`;
}

function isProcessRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM: it runs as another user.
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
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
