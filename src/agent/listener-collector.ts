/** Samples who listens on TCP ports, each with the service name that Coral gives it. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { HostReader, ListenerScan } from "../host/index.ts";
import type { listener, RowOf } from "../store/index.ts";
import { count, whyHidden } from "./why-hidden.ts";

export type ListenerRow = RowOf<typeof listener.columns>;

export interface ListenerCollectorOptions {
  reader: HostReader;
  clock: Clock;
  log: Logger;
}

export interface ListenerCollector {
  /** One row per listening process, address and port. Rejects only when the signal is aborted. */
  sample(signal?: AbortSignal): Promise<ListenerRow[]>;
  /** What the last sample could not see, ready to print. */
  notes(): string[];
}

function notesOf(scan: ListenerScan): string[] {
  const notes: string[] = [];
  if (scan.withoutProcess > 0)
    notes.push(`${count(scan.withoutProcess, "listening socket has", "listening sockets have")} no known process; ${whyHidden()}`);
  if (scan.deniedProcesses > 0) {
    notes.push(
      `${count(scan.deniedProcesses, "process", "processes")} cannot be looked into, so listeners in network namespaces of their own are missing; ${whyHidden()}`,
    );
  }
  if (scan.cut > 0) notes.push(`${scan.cut} sockets or descriptors were not looked at: there are too many`);
  return notes;
}

export function createListenerCollector(options: ListenerCollectorOptions): ListenerCollector {
  const { reader, clock, log } = options;
  let notes: string[] = [];
  let lastCount = -1;

  const sample = async (signal?: AbortSignal): Promise<ListenerRow[]> => {
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
    const scan = await reader.listeners(signal);
    notes = notesOf(scan);
    if (scan.listeners.length !== lastCount) log.debug("listeners changed", { before: lastCount, now: scan.listeners.length });
    lastCount = scan.listeners.length;
    return scan.listeners.map((item) => ({
      ...time,
      service: item.service,
      named_by: item.namedBy,
      protocol: "tcp",
      address: item.address,
      port: item.port,
      pid: item.pid,
      start_ticks: item.startTicks,
      exe: item.exe,
      user_id: item.userId,
      cgroup: item.cgroup,
    }));
  };
  return { sample, notes: () => notes };
}
