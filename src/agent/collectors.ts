/** The agent's collectors: what each samples, how often, and into which signals the rows go. */

import { background, repeat } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig } from "../config/index.ts";
import type { HostReader, PodLabels } from "../host/index.ts";
import type { AgentStore } from "../store/agent/index.ts";
import {
  type Columns,
  connection,
  event,
  host,
  hostCgroup,
  hostCpu,
  hostDisk,
  hostInterface,
  hostMount,
  hostProcess,
  type RowOf,
  type Signal,
  serviceInstance,
} from "../store/signals/index.ts";
import { Alarm, runCollectLoop } from "./collect-loop.ts";
import type { KernelConnections } from "./connections/kernel-connections.ts";
import { createSocketDumper } from "./connections/socket-dumper.ts";
import { createDiscoveryCollector, type DiscoveryCollector, type ScanWatcher } from "./discovery/discovery-collector.ts";
import { createHostCollector, type HostRows } from "./host/host-collector.ts";
import type { ManagedServices } from "./managed/managed-services.ts";
import type { ServiceIdentities } from "./naming/service-identities.ts";
import type { TrafficNames } from "./naming/service-namer.ts";

export interface CollectorsOptions {
  store: AgentStore;
  reader: HostReader;
  clock: Clock;
  log: Logger;
  config: () => AgentConfig;
  /** Services registered by users; their names win over all others. */
  managed: ManagedServices;
  /** Labels of the pods on this node; absent outside a cluster. */
  pods?: PodLabels;
  /** Service names learned from traffic; none by default. */
  traffic?: TrafficNames;
  identities: ServiceIdentities;
  /** Receives every scan. */
  watcher?: ScanWatcher;
  /** Connection events from the kernel; absent: scans only. */
  kernel?: KernelConnections;
  /** Called when the rows of a rescan are stored: a user waits for them. */
  onRescanned?: () => void;
}

export interface Collectors {
  /** One promise per collector; each resolves when aborted. */
  run(signal: AbortSignal): Promise<void>[];
  /** Scans now and reports every instance: a user changed a registered service. */
  rescan(): void;
  /** Scans now, with the regular reports: traffic showed an unknown process. */
  scanSoon(): void;
  /** Stores pending connection events of the kernel after a short delay. */
  storeConnectionsSoon(): void;
  /** Sentences about what the collectors could not see. */
  notes(): string[];
}

/** A signal 0 per instance costs a microsecond; a scan costs thousands of them. */
const exitCheckMs = 1_500;
/** Collects connection events into one write. */
const connectionsDelayMs = 500;

/** Two loops, host samples and services, and a check for exited processes that triggers the second one early. */
export function createCollectors(options: CollectorsOptions): Collectors {
  const { store, reader, clock, log, config } = options;
  const dumper = createSocketDumper(() => config().serviceDiscovery.backend);
  const discovery = createDiscoveryCollector({
    scanner: reader.discovery({ dumper, ...(options.pods ? { pods: options.pods } : {}) }),
    config: () => config().serviceDiscovery,
    managed: options.managed,
    identities: options.identities,
    ...(options.traffic ? { traffic: options.traffic } : {}),
    ...(options.watcher ? { watcher: options.watcher } : {}),
    ...(options.kernel ? { kernel: options.kernel } : {}),
    ticksPerS: reader.units.ticksPerS,
    clock,
    log,
  });
  const hosts = createHostCollector({
    reader,
    clock,
    topProcesses: () => config().host.topProcesses,
    servicePids: () => discovery.instancePids(),
    log,
  });
  const alarm = new Alarm();
  let isRescan = false;

  const hash = createHasher(discovery, log);
  const collectHost = async (signal: AbortSignal): Promise<void> => appendHost(store, await hosts.sample(signal));
  const collectServices = async (signal: AbortSignal): Promise<void> => {
    // Before the scan: a request that arrives while it runs is for the next one.
    const reportAll = isRescan;
    isRescan = false;
    const rows = await discovery.sample(signal, reportAll);
    const { batchSize } = config().serviceDiscovery;
    await Promise.all([
      appendInBatches(store, serviceInstance, rows.instances, batchSize),
      appendInBatches(store, connection, rows.connections, batchSize),
      appendInBatches(store, event, rows.events, batchSize),
    ]);
    if (reportAll) options.onRescanned?.();
    // Hashing large files takes seconds: the next scan does not wait for it.
    hash(signal);
  };
  const storeConnectionsSoon = delayed(log, "connections", connectionsDelayMs, () =>
    appendInBatches(store, connection, discovery.kernelConnections(), config().serviceDiscovery.batchSize),
  );
  return {
    run: (signal) => [
      runCollectLoop({ name: "host samples", intervalMs: () => config().host.intervalMs, collect: collectHost, clock, log }, signal),
      repeat("Checking for exited services", exitCheckMs, async () => discovery.hasExits() && alarm.ring(), log, signal),
      runCollectLoop({ name: "services", intervalMs: () => discovery.nextDelayMs(), collect: collectServices, alarm, clock, log }, signal),
    ],
    rescan: () => {
      isRescan = true;
      alarm.ring();
    },
    scanSoon: () => alarm.ring(),
    storeConnectionsSoon,
    notes: () => [...hosts.notes(), ...discovery.notes()],
  };
}

/** Calls during the delay share one run. */
function delayed(log: Logger, what: string, delayMs: number, run: () => Promise<void>): () => void {
  let timer: NodeJS.Timeout | undefined;
  let lastFailure = "";
  const attempt = async (): Promise<void> => {
    try {
      await run();
      lastFailure = "";
    } catch (error) {
      // Logged on change, not each time: the losses are reported with the data.
      const { message, code } = CoralError.from(error);
      log[message === lastFailure ? "debug" : "error"](`Cannot store ${what}: ${message}; counting the rows as lost`, { code });
      lastFailure = message;
    }
  };
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      background(log, `Storing ${what}`, attempt());
    }, delayMs).unref();
  };
}

/** One at a time, in the background. */
function createHasher(discovery: Pick<DiscoveryCollector, "hashBuilds">, log: Logger): (signal: AbortSignal) => void {
  let isHashing = false;
  const run = async (signal: AbortSignal): Promise<void> => {
    try {
      await discovery.hashBuilds(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      isHashing = false;
    }
  };
  return (signal) => {
    if (isHashing) return;
    isHashing = true;
    background(log, "Hashing executables", run(signal));
  };
}

/** One transaction: the store commits concurrent appends together, so that a sample is stored completely or not at all. */
async function appendHost(store: AgentStore, rows: HostRows): Promise<void> {
  await Promise.all([
    store.append(host, rows.host),
    store.append(hostCpu, rows.hostCpu),
    store.append(hostMount, rows.hostMount),
    store.append(hostDisk, rows.hostDisk),
    store.append(hostInterface, rows.hostInterface),
    store.append(hostCgroup, rows.hostCgroup),
    store.append(hostProcess, rows.hostProcess),
  ]);
}

/** Sequential: a host with tens of thousands of connections has more rows than the store's queue takes at once. */
async function appendInBatches<C extends Columns>(
  store: AgentStore,
  signal: Signal<C>,
  rows: readonly RowOf<C>[],
  batchSize: number,
): Promise<void> {
  for (let start = 0; start < rows.length; start += batchSize) await store.append(signal, rows.slice(start, start + batchSize));
}
