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
import { createTrafficDirectory, type TrafficDirectory } from "./traffic/traffic-directory.ts";

export interface OpenTrafficOptions {
  store: AgentStore;
  audit: Pick<AuditLog, "note">;
  config: () => AgentTrafficConfig;
  hostname: string;
  /** Other processes of Coral. */
  ownPids?: () => readonly number[];
  supervise?: TrafficCollectorOptions["supervise"];
  rescan: () => void;
  /** Receives reports about connections. */
  connections?: TrafficCollectorOptions["connections"];
  clock: Clock;
  log: Logger;
}

export interface Traffic {
  collector: TrafficCollector;
  names: TrafficNames;
  watcher: ScanWatcher;
  captures: CaptureService;
  /** Processes of a service, by the newest scan. */
  pidsOf: (service: string) => readonly number[];
  servicesOf: TrafficDirectory["servicesOf"];
}

/** Nothing is observed before `collector.reconfigure()`. */
export function openTraffic(options: OpenTrafficOptions): Traffic {
  const { store, config, clock, log } = options;
  const directory = createTrafficDirectory();
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
  return {
    collector,
    names,
    pidsOf: (service) => directory.pidsOf((name) => name === service),
    servicesOf: (isMatch) => directory.servicesOf(isMatch),
    watcher: { isWanted: () => config().enabled, scanned: (scan, namer) => collector.scanned(scan, namer) },
    captures: createCaptureService({
      hub: collector.captures,
      pidsOf: async (service) => directory.pidsOf((name) => name === service),
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
