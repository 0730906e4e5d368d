/** Samples the host: rates and ratios since the previous sample. */

import { type Clock, sleep } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { HostReader, HostSnapshot } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import { createCounterDeltas } from "./counter-deltas.ts";
import { hostNotes } from "./host-notes.ts";
import {
  cgroupRows,
  cpuRows,
  diskRows,
  type HostCgroupRow,
  type HostCpuRow,
  type HostDiskRow,
  type HostInterfaceRow,
  type HostMountRow,
  type HostProcessRow,
  type HostRow,
  hostRow,
  interfaceRows,
  mountRows,
} from "./host-rows.ts";
import { processRows, type ServicePids } from "./process-rows.ts";

/** Rows of one sample, by signal; all have the same timestamp. */
export interface HostRows {
  host: HostRow[];
  hostCpu: HostCpuRow[];
  hostMount: HostMountRow[];
  hostDisk: HostDiskRow[];
  hostInterface: HostInterfaceRow[];
  hostCgroup: HostCgroupRow[];
  hostProcess: HostProcessRow[];
}

export interface HostCollectorOptions {
  reader: HostReader;
  clock: Clock;
  /** Top processes by each of CPU, memory, threads and open files; read before each sample, clamped to 1..100. */
  topProcesses: () => number;
  /** Processes of services, sampled every minute whether they are among the top ones or not, and always while they are busy. Default: none. */
  servicePids?: () => ReadonlySet<number>;
  log: Logger;
  /** Interval of the very first sample; default 250 ms. */
  baselineMs?: number;
}

export interface HostCollector {
  /** One at a time. Rejects only when the signal is aborted. */
  sample(signal?: AbortSignal): Promise<HostRows>;
  /** Sentences about what the last sample could not see. */
  notes(): string[];
}

interface TimedSnapshot {
  time: SampleTime;
  monotonicMs: number;
  snapshot: HostSnapshot;
}

/** A host may have hundreds of services, most of them idle. With every sample they would fill the store with empty rows. */
const servicesIntervalMs = 60_000;
const noPids: ReadonlySet<number> = new Set();

/** Rates need two snapshots, so the first sample takes a short baseline of its own. */
export function createHostCollector(options: HostCollectorOptions): HostCollector {
  let servicesAtMs = Number.NEGATIVE_INFINITY;
  let sampledPids = noPids;
  /** All of them every minute; in between, those that are new. */
  const servicesAt = (nowMs: number): ServicePids => {
    const pids = options.servicePids?.() ?? noPids;
    const isDue = pids.size > 0 && nowMs - servicesAtMs >= servicesIntervalMs;
    const due = isDue ? pids : new Set([...pids].filter((pid) => !sampledPids.has(pid)));
    if (isDue) servicesAtMs = nowMs;
    sampledPids = pids;
    return { all: pids, due };
  };
  const { reader, clock, log, baselineMs = 250 } = options;
  let last: TimedSnapshot | undefined;
  let notes: string[] = [];
  let hungMounts: readonly string[] = [];

  const take = async (signal: AbortSignal | undefined): Promise<TimedSnapshot> => {
    // Read once, immediately before the counters: all rows of the sample use this timestamp.
    const monotonicMs = clock.monotonicMs();
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(monotonicMs) };
    return { time, monotonicMs, snapshot: await reader.snapshot(signal) };
  };

  const reportMounts = (unresponsive: readonly string[]): void => {
    for (const mount of unresponsive) if (!hungMounts.includes(mount)) log.warn("file system does not respond; skipping it", { mount });
    for (const mount of hungMounts) if (!unresponsive.includes(mount)) log.info("file system responds again", { mount });
    hungMounts = unresponsive;
  };

  const sample = async (signal?: AbortSignal): Promise<HostRows> => {
    if (!last) {
      last = await take(signal);
      await sleep(baselineMs, signal);
    }
    const before = last;
    const now = await take(signal);
    last = now;
    const intervalMs = Math.max(1, now.monotonicMs - before.monotonicMs);
    const deltas = createCounterDeltas(intervalMs / 1_000);
    const pair = { before: before.snapshot, now: now.snapshot, time: now.time, intervalMs, deltas };
    const topProcesses = Math.min(100, Math.max(1, options.topProcesses()));
    const rows = {
      host: [hostRow(pair)],
      hostCpu: cpuRows(pair),
      hostMount: mountRows(pair),
      hostDisk: diskRows(pair),
      hostInterface: interfaceRows(pair),
      hostCgroup: cgroupRows(pair),
      hostProcess: processRows(pair, reader, topProcesses, servicesAt(now.monotonicMs)),
    };
    notes = hostNotes(now.snapshot, rows.hostProcess, deltas.resets);
    reportMounts(now.snapshot.mounts.unresponsive);
    return rows;
  };
  return { sample, notes: () => notes };
}
