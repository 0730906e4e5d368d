/** Start times of processes, to distinguish those that had the same pid: a request or connection belongs to the one that ran at that time. */

import { uptime } from "node:os";

export interface ProcessTimes {
  /** Start of a process on CLOCK_MONOTONIC, the clock of the kernel hooks; null if the uptime does not match that clock. */
  startedNs(startTicks: number): bigint | null;
}

/** Ticks and the uptime have a resolution of 10 ms. */
const toleranceNs = 50_000_000n;

export interface ProcessTimesOptions {
  ticksPerS: number;
  /** Seconds since boot, suspended time included. Default: of this machine. */
  uptimeS?: () => number;
  /** CLOCK_MONOTONIC. */
  nowNs?: () => bigint;
}

/** `startTicks` is field 22 of /proc/<pid>/stat: clock ticks since boot. */
export function createProcessTimes({
  ticksPerS,
  uptimeS = uptime,
  nowNs = () => process.hrtime.bigint(),
}: ProcessTimesOptions): ProcessTimes {
  return {
    startedNs: (startTicks) => {
      const now = nowNs();
      const started = now - BigInt(Math.round((uptimeS() - startTicks / ticksPerS) * 1e9));
      // Containers may show their own uptime, for instance with lxcfs.
      return started > now + toleranceNs ? null : started - toleranceNs;
    },
  };
}

/** For tests, and for hosts without usable start times: any process may have had the pid. */
export const noProcessTimes: ProcessTimes = { startedNs: () => null };
