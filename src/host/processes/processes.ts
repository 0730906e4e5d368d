import { printable } from "../../base/escape-text.ts";
import { processCgroup } from "../cgroups/process-cgroup.ts";
import { createReadTally, type HostRoot, type ReadTally } from "../files/host-root.ts";
import type { Pacer } from "../files/pacer.ts";
import type { OpenFileCounter } from "./open-files.ts";
import { type ProcessStat, parseProcessStat } from "./process-stat.ts";

export interface ProcessScan {
  processes: ProcessStat[];
  /** Processes above the limit. */
  cut: number;
  tally: ReadTally;
}

/** Facts that cost more reads; read for a few processes only. */
export interface ProcessDetail {
  /** Effective. */
  userId: number;
  /** Null for kernel threads, and if access is denied. */
  exe: string | null;
  cgroup: string | null;
  openFiles: number | null;
}

const maxProcesses = 32_768;

/** The numeric names of /proc. */
export function listProcessIds(root: HostRoot, tally?: ReadTally): number[] {
  return (root.list("/proc", tally) ?? []).filter((name) => /^[1-9]\d{0,9}$/.test(name)).map(Number);
}

/** All visible processes, one read each. Skips those that exit meanwhile. */
export async function scanProcesses(root: HostRoot, pacer: Pacer): Promise<ProcessScan> {
  const tally = createReadTally();
  const ids = listProcessIds(root, tally);
  const processes: ProcessStat[] = [];
  for (const pid of ids.slice(0, maxProcesses)) {
    if (pacer.due()) await pacer.rest();
    const text = root.readText(`/proc/${pid}/stat`, tally);
    if (text === null) continue;
    const stat = parseProcessStat(text);
    if (stat) processes.push(stat);
    else tally.failed++;
  }
  return { processes, cut: Math.max(0, ids.length - maxProcesses), tally };
}

/** Path of the executable, without the kernel's suffix for a file that was replaced. */
export function readExecutable(root: HostRoot, pid: number): string | null {
  const link = root.readLink(`/proc/${pid}/exe`);
  return link === null || link === "" ? null : printable(link.replace(/ \(deleted\)$/, ""), 512);
}

/** Null when the process has ended. */
export function readProcessDetail(root: HostRoot, process: ProcessStat, openFiles: OpenFileCounter): ProcessDetail | null {
  const { pid } = process;
  const userId = /^Uid:\s+\d+\s+(\d+)/m.exec(root.readText(`/proc/${pid}/status`) ?? "")?.[1];
  if (userId === undefined) return null;
  return {
    userId: Number(userId),
    exe: process.isKernelThread ? null : readExecutable(root, pid),
    cgroup: processCgroup(root.readText(`/proc/${pid}/cgroup`) ?? ""),
    openFiles: openFiles.count(pid),
  };
}
