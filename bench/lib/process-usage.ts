/** What a process has used so far, as the kernel counts it. */

import { readdirSync, readFileSync } from "node:fs";

export interface ProcessUsage {
  atMs: number;
  /** User and system time of all threads. */
  cpuMs: number;
  rssBytes: number;
  /** The highest RSS since the process began. */
  peakRssBytes: number;
}

/** USER_HZ: a hundredth of a second on every Linux that Node runs on. */
const tickMs = 10;

export function usageOf(pid: number): ProcessUsage {
  const atMs = performance.now();
  // The name, in parentheses, may hold anything; what follows the last one is plain.
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\)/s, "").trim().split(" ");
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kibibytes = (key: string): number => Number(new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? Number.NaN);
  return {
    atMs,
    cpuMs: (Number(stat[11]) + Number(stat[12])) * tickMs,
    rssBytes: kibibytes("VmRSS") * 1024,
    peakRssBytes: kibibytes("VmHWM") * 1024,
  };
}

/** Cores kept busy between two looks. */
export function coresBetween(before: ProcessUsage, after: ProcessUsage): number {
  return (after.cpuMs - before.cpuMs) / (after.atMs - before.atMs);
}

/** CPU of all threads that are alive, to the nanosecond: the scheduler's own count. */
export function cpuNsOf(pid: number): number {
  let sum = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    sum += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  }
  return sum;
}
