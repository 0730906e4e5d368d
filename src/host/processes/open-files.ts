/** How many descriptors processes hold, without listing thousands of them every time. */

import type { HostRoot } from "../files/host-root.ts";
import type { Pacer } from "../files/pacer.ts";
import type { ProcessStat } from "./process-stat.ts";

export interface OpenFileCounter {
  /** Open descriptors of one process; null if access is denied. */
  count(pid: number): number | null;
  /** Counts by pid, to rank processes. Complete if the kernel keeps the count; otherwise each call lists some processes and caches their counts. */
  survey(processes: readonly ProcessStat[], pacer: Pacer): Promise<ReadonlyMap<number, number>>;
}

/** Listings per survey on kernels that do not keep the count. */
const listingsPerSurvey = 64;

export function createOpenFileCounter(root: HostRoot): OpenFileCounter {
  /** By pid; only processes of the last survey, so bounded by their number. */
  let counts = new Map<number, number>();
  let nextIndex = 0;
  // Since Linux 6.2 the size of the fd directory is the number of descriptors. The listing itself holds one more open.
  const sizeBytes = root.stat("/proc/self/fd")?.sizeBytes ?? 0;
  const listed = root.list("/proc/self/fd")?.length ?? 0;
  const kernelCounts = sizeBytes > 0 && Math.abs(sizeBytes - listed) <= 1;

  const count = (pid: number): number | null => {
    const path = `/proc/${pid}/fd`;
    if (kernelCounts) return root.stat(path)?.sizeBytes ?? null;
    return root.list(path)?.length ?? null;
  };

  const survey = async (processes: readonly ProcessStat[], pacer: Pacer): Promise<ReadonlyMap<number, number>> => {
    const users = processes.filter((process) => !process.isKernelThread);
    const known = counts;
    counts = new Map();
    const turns = kernelCounts ? users.length : Math.min(users.length, listingsPerSurvey);
    const first = nextIndex;
    for (const [index, { pid }] of users.entries()) {
      if (pacer.due()) await pacer.rest();
      const isItsTurn = (index - first + users.length * 2) % users.length < turns;
      const value = isItsTurn ? count(pid) : (known.get(pid) ?? null);
      if (value !== null) counts.set(pid, value);
    }
    nextIndex = users.length === 0 ? 0 : (first + turns) % users.length;
    return counts;
  };
  return { count, survey };
}
