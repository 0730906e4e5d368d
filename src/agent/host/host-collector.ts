/** Samples the host: rates and ratios of the time since the sample before. */

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
import { processRows } from "./process-rows.ts";

/** What one sample made, by signal; all rows carry the same time. */
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
  /** How many processes by each of CPU, memory, threads and open files; read before each sample, held between 1 and 100. */
  topProcesses: () => number;
  log: Logger;
  /** What the very first sample is compared with is this much older; default 250 ms. */
  baselineMs?: number;
}

export interface HostCollector {
  /** One at a time. Rejects only when the signal is aborted. */
  sample(signal?: AbortSignal): Promise<HostRows>;
  /** What the last sample could not see, ready to print. */
  notes(): string[];
}

interface TimedSnapshot {
  time: SampleTime;
  monotonicMs: number;
  snapshot: HostSnapshot;
}

export function createHostCollector(options: HostCollectorOptions): HostCollector {
  const { reader, clock, log, baselineMs = 250 } = options;
  let last: TimedSnapshot | undefined;
  let notes: string[] = [];
  let silentMounts: readonly string[] = [];

  const take = async (signal: AbortSignal | undefined): Promise<TimedSnapshot> => {
    // Read once, immediately before the counters: everything in the sample refers to this instant.
    const monotonicMs = clock.monotonicMs();
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(monotonicMs) };
    return { time, monotonicMs, snapshot: await reader.snapshot(signal) };
  };

  const reportMounts = (unresponsive: readonly string[]): void => {
    for (const mount of unresponsive) if (!silentMounts.includes(mount)) log.warn("file system does not answer", { mount });
    for (const mount of silentMounts) if (!unresponsive.includes(mount)) log.info("file system answers again", { mount });
    silentMounts = unresponsive;
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
      hostProcess: processRows(pair, reader, topProcesses),
    };
    notes = hostNotes(now.snapshot, rows.hostProcess, deltas.resets);
    reportMounts(now.snapshot.mounts.unresponsive);
    return rows;
  };
  return { sample, notes: () => notes };
}
