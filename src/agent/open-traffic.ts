/** Connects the parts that observe requests: the collector, its directory and learned names, and captures. */

import { availableParallelism } from "node:os";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentTrafficConfig } from "../config/index.ts";
import { type AgentStore } from "../store/agent/index.ts";
import { event } from "../store/signals/index.ts";
import { superviseTraffic } from "../traffic/index.ts";
import type { AuditLog } from "./audit/audit-log.ts";
import { type CaptureService, captureAuditNote, createCaptureService } from "./capture/capture-service.ts";
import type { ScanWatcher } from "./discovery/discovery-collector.ts";
import type { TrafficNames } from "./naming/service-namer.ts";
import { LearnedNames } from "./traffic/learned-names.ts";
import { TrafficCollector, type TrafficCollectorOptions } from "./traffic/traffic-collector.ts";
import { createTrafficDirectory, type TrafficDirectory, type TrafficDirectoryOptions } from "./traffic/traffic-directory.ts";

export interface OpenTrafficOptions {
  store: AgentStore;
  audit: Pick<AuditLog, "note">;
  config: () => AgentTrafficConfig;
  hostname: string;
  /** Distinguishes processes that had the same pid. */
  processes: Pick<TrafficDirectoryOptions, "times" | "startTicksNow">;
  /** Other processes of Coral. */
  ownPids?: () => readonly number[];
  supervise?: TrafficCollectorOptions["supervise"];
  rescan: () => void;
  /** Receives reports about connections. */
  connections?: TrafficCollectorOptions["connections"];
  clock: Clock;
  log: Logger;
}

/** The parts of traffic observation. They exist even if it is disabled, and then report nothing. */
export interface Traffic {
  collector: TrafficCollector;
  /** Which process belongs to which service. */
  directory: TrafficDirectory;
  names: TrafficNames;
  watcher: ScanWatcher;
  captures: CaptureService;
  /** Processes of a service, by its id or name and the newest scan. */
  pidsOf: (service: string) => readonly number[];
  /** Names of services with a matching process. */
  servicesOf: (isMatch: (pid: number) => boolean) => string[];
  /** The name of a service by its id; the id itself if the name is ambiguous. */
  nameOf: (service: string) => string;
}

/** Nothing is observed before `collector.reconfigure()`. */
export function openTraffic(options: OpenTrafficOptions): Traffic {
  const { store, config, clock, log } = options;
  const directory = createTrafficDirectory(options.processes);
  const names = new LearnedNames({ hostname: options.hostname });
  const collector = new TrafficCollector({
    store,
    directory,
    names,
    config,
    supervise: options.supervise ?? superviseTraffic,
    ownPids: () => [process.pid, ...(options.ownPids?.() ?? [])],
    cores: availableParallelism(),
    rescan: options.rescan,
    ...(options.connections ? { connections: options.connections } : {}),
    clock,
    log,
  });
  const pidsOf = (text: string): number[] => directory.pidsOf(({ service, name }) => service === text || name === text);
  return {
    collector,
    directory,
    names,
    pidsOf,
    servicesOf: (isMatch) => [...new Set(directory.servicesOf(isMatch).map(({ name }) => name))],
    nameOf: (id) => uniqueName(directory, id),
    watcher: {
      isWanted: () => config().enabled,
      scanned: (scan, namer) => collector.scanned(scan, namer),
      connected: (rows) => collector.connected(rows),
    },
    captures: createCaptureService({
      hub: collector.captures,
      pidsOf: async (service) => pidsOf(service),
      serviceOf: (text) => directory.servicesOf(() => true).find(({ service, name }) => service === text || name === text),
      limits: () => {
        const { capture } = config();
        const { maxDurationMs, maxRequests, maxCaptures, headers } = capture;
        return { isEnabled: capture.enabled, allowBody: capture.bodies, maxDurationMs, maxRequests, maxCaptures, headers };
      },
      audit: async (row) => {
        await options.audit.note(captureAuditNote(row));
        await store.append(event, [row]);
      },
      clock,
      log,
    }),
  };
}

function uniqueName(directory: TrafficDirectory, id: string): string {
  const all = directory.servicesOf(() => true);
  const name = all.find(({ service }) => service === id)?.name;
  return name !== undefined && all.filter((one) => one.name === name).length === 1 ? name : id;
}
