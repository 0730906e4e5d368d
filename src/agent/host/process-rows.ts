/** Rows of the top processes. */

import type { HostReader, ProcessStat } from "../../host/index.ts";
import { roundTo } from "./counter-deltas.ts";
import type { HostProcessRow, SnapshotPair } from "./host-rows.ts";

/** A process with its increments since the previous sample. */
interface Candidate {
  process: ProcessStat;
  cpuTicks: number;
  majorFaults: number;
  openFiles: number;
}

/** The `count` items with the highest positive score, best first. */
export function largest<T>(items: readonly T[], count: number, scoreOf: (item: T) => number): T[] {
  const best: { item: T; score: number }[] = [];
  for (const item of items) {
    const score = scoreOf(item);
    if (score <= 0 || (best.length >= count && score <= (best.at(-1)?.score ?? 0))) continue;
    const position = best.findIndex((other) => score > other.score);
    best.splice(position < 0 ? best.length : position, 0, { item, score });
    if (best.length > count) best.pop();
  }
  return best.map(({ item }) => item);
}

/** A process started within the interval used all its CPU time in it; for one that merely became visible the share is unknown. */
function candidatesOf({ before, now }: SnapshotPair, ticksPerS: number): Candidate[] {
  const known = new Map(before.processes.processes.map((process) => [process.pid, process]));
  const bornAfterTicks = (before.uptimeS - 0.02) * ticksPerS;
  return now.processes.processes.map((process) => {
    const earlier = known.get(process.pid);
    const isSame = earlier?.startTicks === process.startTicks;
    const isNew = !isSame && process.startTicks >= bornAfterTicks;
    const grown = (key: "cpuTicks" | "majorFaults"): number =>
      isSame ? Math.max(0, process[key] - earlier[key]) : isNew ? process[key] : 0;
    return { process, cpuTicks: grown("cpuTicks"), majorFaults: grown("majorFaults"), openFiles: now.openFiles.get(process.pid) ?? 0 };
  });
}

/** Of services, in one sample. */
const maxServiceProcesses = 1_000;
/** A process of a service that uses more is in every sample: one that becomes busy shows at once, also beside busier programs. */
const busyCores = 0.02;

/** Pids of services: all of them, and those that this sample must have. */
export interface ServicePids {
  all: ReadonlySet<number>;
  due: ReadonlySet<number>;
}

/**
 * The union of the top `count` by CPU, resident memory, threads and open files, and of processes of services that are due or busy. Processes that
 * exit meanwhile are skipped.
 */
export function processRows(pair: SnapshotPair, reader: HostReader, count: number, services: ServicePids): HostProcessRow[] {
  const { ticksPerS, pageBytes } = reader.units;
  const intervalS = pair.intervalMs / 1_000;
  const candidates = candidatesOf(pair, ticksPerS);
  const busyTicks = busyCores * ticksPerS * intervalS;
  const isWanted = ({ process: { pid }, cpuTicks }: Candidate): boolean =>
    services.due.has(pid) || (cpuTicks >= busyTicks && services.all.has(pid));
  const chosen = new Set([
    ...largest(candidates, count, (candidate) => candidate.cpuTicks),
    ...largest(candidates, count, (candidate) => candidate.process.rssPages),
    ...largest(candidates, count, (candidate) => candidate.process.threads),
    ...largest(candidates, count, (candidate) => candidate.openFiles),
    ...candidates.filter(isWanted).slice(0, maxServiceProcesses),
  ]);
  const rows: HostProcessRow[] = [];
  for (const { process, cpuTicks, majorFaults } of chosen) {
    const detail = reader.processDetail(process);
    if (!detail) continue;
    rows.push({
      ...pair.time,
      pid: process.pid,
      start_ticks: process.startTicks,
      name: process.name,
      exe: detail.exe,
      user_id: detail.userId,
      cgroup: detail.cgroup,
      state: process.state,
      cpu_cores: roundTo(cpuTicks / ticksPerS / intervalS, 4),
      rss_bytes: process.rssPages * pageBytes,
      threads: process.threads,
      open_files: detail.openFiles,
      major_faults_per_s: roundTo(majorFaults / intervalS, 3),
    });
  }
  return rows;
}
