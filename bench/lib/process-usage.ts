/** CPU and memory usage of a process, as counted by the kernel. */

import { readdirSync, readFileSync } from "node:fs";

export interface ProcessUsage {
  atMs: number;
  /** User and system time of all threads. */
  cpuMs: number;
  rssBytes: number;
  /** Peak RSS since the process started. */
  peakRssBytes: number;
}

/** USER_HZ: a hundredth of a second on every Linux that Node runs on. */
const tickMs = 10;

export function usageOf(pid: number): ProcessUsage {
  const atMs = performance.now();
  // The name, in parentheses, may contain anything; fields after the last parenthesis are plain.
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

/** Cores busy between two readings. */
export function coresBetween(before: ProcessUsage, after: ProcessUsage): number {
  return (after.cpuMs - before.cpuMs) / (after.atMs - before.atMs);
}

/** CPU of all live threads in nanoseconds, from the scheduler's statistics. */
export function cpuNsOf(pid: number): number {
  let sum = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    sum += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  }
  return sum;
}
