/** Tells processes that share a pid apart by time: a request or connection belongs to the one that ran then. */

import { uptime } from "node:os";

export interface ProcessTimes {
  /** Start of a process on CLOCK_MONOTONIC, as the kernel hooks use it; null when the two clocks of this machine do not fit together. */
  startedNs(startTicks: number): bigint | null;
}

/** Ticks and the uptime are in hundredths of a second. */
const toleranceNs = 50_000_000n;

export interface ProcessTimesOptions {
  ticksPerS: number;
  /** Seconds since boot, suspended time included. Default: of this machine. */
  uptimeS?: () => number;
  /** CLOCK_MONOTONIC. */
  nowNs?: () => bigint;
}

export function createProcessTimes({
  ticksPerS,
  uptimeS = uptime,
  nowNs = () => process.hrtime.bigint(),
}: ProcessTimesOptions): ProcessTimes {
  return {
    startedNs: (startTicks) => {
      const now = nowNs();
      const started = now - BigInt(Math.round((uptimeS() - startTicks / ticksPerS) * 1e9));
      // Containers may show an uptime of their own.
      return started > now + toleranceNs ? null : started - toleranceNs;
    },
  };
}

/** For tests, and where nothing is known: no process is ever too young. */
export const noProcessTimes: ProcessTimes = { startedNs: () => null };
