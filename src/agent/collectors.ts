/** Every collector of this agent: what it samples, how often, and into which signals it goes. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig } from "../config/index.ts";
import type { HostReader } from "../host/index.ts";
import { type AgentStore, host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess, listener } from "../store/index.ts";
import { runCollectLoop } from "./collect-loop.ts";
import { createHostCollector } from "./host-collector.ts";
import { createListenerCollector } from "./listener-collector.ts";
import type { ManagedServices } from "./managed-services.ts";

export interface CollectorsOptions {
  store: AgentStore;
  reader: HostReader;
  clock: Clock;
  log: Logger;
  config: () => AgentConfig;
  /** What users say about ports; beats every other name. */
  managed: ManagedServices;
}

export interface Collectors {
  /** One promise per collector; each resolves when aborted. */
  run(signal: AbortSignal): Promise<void>[];
  /** Looks for services soon instead of at the next interval: what users say about a port has changed. */
  rescan(): void;
  /** What could not be seen, ready to print. */
  notes(): string[];
}

export function createCollectors(options: CollectorsOptions): Collectors {
  const { store, reader, clock, log, config } = options;
  const hosts = createHostCollector({ reader, clock, topProcesses: () => config().host.topProcesses, log });
  const listeners = createListenerCollector({ reader, clock, log });
  const collectHost = async (): Promise<void> => {
    const rows = await hosts.sample();
    // Together: the store commits them in one transaction, so a sample is there as a whole or not at all.
    await Promise.all([
      store.append(host, rows.host),
      store.append(hostCpu, rows.hostCpu),
      store.append(hostMount, rows.hostMount),
      store.append(hostDisk, rows.hostDisk),
      store.append(hostInterface, rows.hostInterface),
      store.append(hostCgroup, rows.hostCgroup),
      store.append(hostProcess, rows.hostProcess),
    ]);
  };
  const collectListeners = async (): Promise<void> => {
    await store.append(listener, await listeners.sample());
  };
  return {
    run: (signal) => [
      runCollectLoop({ name: "host samples", intervalMs: () => config().host.intervalMs, collect: collectHost, clock, log }, signal),
      runCollectLoop({ name: "listeners", intervalMs: () => config().listeners.intervalMs, collect: collectListeners, clock, log }, signal),
    ],
    rescan: () => undefined,
    notes: () => [...hosts.notes(), ...listeners.notes()],
  };
}
