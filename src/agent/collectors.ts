/** Every collector of this agent: what it samples, how often, and into which signals it goes. */

import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig } from "../config/index.ts";
import type { HostReader, PodLabels } from "../host/index.ts";
import { type AgentStore } from "../store/agent/index.ts";
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
import { chooseSocketBackend } from "./connections/socket-backend.ts";
import { createDiscoveryCollector, type ScanWatcher } from "./discovery/discovery-collector.ts";
import { createHostCollector, type HostRows } from "./host/host-collector.ts";
import type { ManagedServices } from "./managed/managed-services.ts";
import type { TrafficNames } from "./naming/traffic-names.ts";

export interface CollectorsOptions {
  store: AgentStore;
  reader: HostReader;
  clock: Clock;
  log: Logger;
  config: () => AgentConfig;
  /** What users say about ports; beats every other name. */
  managed: ManagedServices;
  /** Labels of the pods on this node, where there is a cluster to ask. */
  pods?: PodLabels;
  /** What is seen in traffic; nothing by default. */
  traffic?: TrafficNames;
  /** Told of every scan. */
  watcher?: ScanWatcher;
  /** What the kernel tells about connections; absent: scans are all there is. */
  kernel?: KernelConnections;
}

export interface Collectors {
  /** One promise per collector; each resolves when aborted. */
  run(signal: AbortSignal): Promise<void>[];
  /** Looks for services soon instead of at the next interval: what users say about a port has changed. */
  rescan(): void;
  /** Looks soon, without reporting what is known already: a process was seen that nobody knows. */
  lookSoon(): void;
  /** The kernel has told something about connections: it is stored in a moment. */
  connectionsArrived(): void;
  /** What could not be seen, ready to print. */
  notes(): string[];
}

/** What arrives about connections is stored together. */
const newsDelayMs = 500;

export function createCollectors(options: CollectorsOptions): Collectors {
  const { store, reader, clock, log, config } = options;
  const hosts = createHostCollector({ reader, clock, topProcesses: () => config().host.topProcesses, log });
  const backend = chooseSocketBackend(() => config().serviceDiscovery.backend);
  const discovery = createDiscoveryCollector({
    scanner: reader.discovery({ dumper: backend.dumper, ...(options.pods ? { pods: options.pods } : {}) }),
    config: () => config().serviceDiscovery,
    managed: options.managed,
    ...(options.traffic ? { traffic: options.traffic } : {}),
    ...(options.watcher ? { watcher: options.watcher } : {}),
    ...(options.kernel ? { kernel: options.kernel } : {}),
    ticksPerS: reader.units.ticksPerS,
    clock,
    log,
  });
  const alarm = new Alarm();
  let isRescan = false;

  const collectHost = async (signal: AbortSignal): Promise<void> => appendHost(store, await hosts.sample(signal));
  const collectServices = async (signal: AbortSignal): Promise<void> => {
    const rows = await discovery.sample(signal, isRescan);
    isRescan = false;
    const { batchSize } = config().serviceDiscovery;
    await Promise.all([
      appendInBatches(store, serviceInstance, rows.instances, batchSize),
      appendInBatches(store, connection, rows.connections, batchSize),
      appendInBatches(store, event, rows.events, batchSize),
    ]);
    await discovery.settle(signal);
  };
  let newsTimer: NodeJS.Timeout | undefined;
  const storeNews = async (): Promise<void> => {
    await appendInBatches(store, connection, discovery.connectionNews(), config().serviceDiscovery.batchSize);
  };
  return {
    run: (signal) => [
      runCollectLoop({ name: "host samples", intervalMs: () => config().host.intervalMs, collect: collectHost, clock, log }, signal),
      runCollectLoop({ name: "services", intervalMs: () => discovery.nextDelayMs(), collect: collectServices, alarm, clock, log }, signal),
    ],
    rescan: () => {
      isRescan = true;
      alarm.ring();
    },
    lookSoon: () => alarm.ring(),
    connectionsArrived: () => {
      newsTimer ??= setTimeout(() => {
        newsTimer = undefined;
        background(log, "Storing connections", storeNews());
      }, newsDelayMs).unref();
    },
    notes: () => [...hosts.notes(), ...discovery.notes()],
  };
}

/** Together: the store commits them in one transaction, so a sample is there as a whole or not at all. */
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

/** One after the other: a host with tens of thousands of connections has more rows than may wait in the store at once. */
async function appendInBatches<C extends Columns>(
  store: AgentStore,
  signal: Signal<C>,
  rows: readonly RowOf<C>[],
  batchSize: number,
): Promise<void> {
  for (let start = 0; start < rows.length; start += batchSize) await store.append(signal, rows.slice(start, start + batchSize));
}
