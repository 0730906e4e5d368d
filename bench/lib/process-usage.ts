/** CPU and memory usage of a process, as counted by the kernel. */

import { readdirSync, readFileSync } from "node:fs";

/** From /proc/<pid>: `stat`, `status` and `io`. */
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

/** CPU time has a resolution of one clock tick, usually 10 ms. */
export function usageOf(pid: number): ProcessUsage {
  const atMs = performance.now();
  const stat = statOf(pid);
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

/** A process and all of its descendants. */
export interface TreeUsage {
  atMs: number;
  /** Includes children that exited and were waited for. */
  cpuMs: number;
  rssBytes: number;
  /** Pages that several processes map count once in total. */
  pssBytes: number;
}

/** A process and its descendants. Children that have exited count by the parent's `cutime`. */
export function treeUsageOf(pid: number): TreeUsage {
  const usage: TreeUsage = { atMs: performance.now(), cpuMs: 0, rssBytes: 0, pssBytes: 0 };
  for (const one of treeOf(pid)) {
    try {
      // Both its own and its ended children's user and system time.
      const times = statOf(one).slice(11, 15).map(Number);
      usage.cpuMs += times.reduce((sum, ticks) => sum + ticks, 0) * tickMs;
      const memory = readFileSync(`/proc/${one}/smaps_rollup`, "utf8");
      const bytes = (key: string): number => Number(new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(memory)?.[1] ?? 0) * 1024;
      usage.rssBytes += bytes("Rss");
      usage.pssBytes += bytes("Pss");
    } catch (error) {
      // It exited meanwhile, and its time is in the parent's; only the root process must exist.
      if (one === pid) throw error;
    }
  }
  return usage;
}

/** Fields after the name, which may contain anything and is in parentheses. */
function statOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\)/s, "").trim().split(" ");
}

function treeOf(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const parent = Number(statOf(Number(name))[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // It ended between the listing and the reading.
    }
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}
