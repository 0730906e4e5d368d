/** Samples who listens on TCP ports, each with the service name that Coral gives it. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { HostReader, ListenerScan } from "../host/index.ts";
import type { listener, RowOf } from "../store/index.ts";

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

const howToSeeMore = "run the agent as root or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";

function notesOf(scan: ListenerScan): string[] {
  const notes: string[] = [];
  if (scan.withoutProcess > 0) notes.push(`${scan.withoutProcess} listening sockets have no known process; ${howToSeeMore}`);
  if (scan.deniedProcesses > 0) {
    notes.push(
      `${scan.deniedProcesses} processes cannot be looked into: listeners in network namespaces of their own are missing; ${howToSeeMore}`,
    );
  }
  if (scan.cut > 0) notes.push(`${scan.cut} sockets or descriptors were not looked at: there are too many`);
  return notes;
}

export function createListenerCollector(options: ListenerCollectorOptions): ListenerCollector {
  const { reader, clock, log } = options;
  let notes: string[] = [];
  let count = -1;

  const sample = async (signal?: AbortSignal): Promise<ListenerRow[]> => {
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
    const scan = await reader.listeners(signal);
    notes = notesOf(scan);
    if (scan.listeners.length !== count) log.debug("listeners changed", { before: count, now: scan.listeners.length });
    count = scan.listeners.length;
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
