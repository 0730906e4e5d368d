/** Owners of recent connections, by pid: the kernel reports many connections after their process has exited and left the scan. */

import type { Clock } from "../../base/clock.ts";
import type { Owner } from "./connection-owner.ts";

/** The kernel flushes its counts every ten seconds, and the next scan may be half a minute later. */
const keptMs = 120_000;
/** Owners kept; the least recently added is evicted. */
const maxOwners = 4_096;

export interface RecentOwners {
  add(pid: number, owner: Owner): void;
  /**
   * Undefined for a pid that was not added in the last two minutes, and for anything that began (CLOCK_MONOTONIC) after a scan missed the process:
   * by then another process has the pid.
   */
  find(pid: number, beganNs?: bigint): Owner | undefined;
  /** Call after each scan, with the time of its end. */
  scanned(isRunning: (owner: Owner) => boolean, atNs: bigint): void;
}

/** In memory only: after a restart of the agent, connections of exited processes have no owner. */
export function createRecentOwners(clock: Clock): RecentOwners {
  /** Least recently added first. */
  const owners = new Map<number, { owner: Owner; untilMs: number; goneNs: bigint | null }>();
  return {
    add: (pid, owner) => {
      const nowMs = clock.monotonicMs();
      owners.delete(pid);
      for (const [oldest, { untilMs }] of owners) {
        if (untilMs > nowMs && owners.size < maxOwners) break;
        owners.delete(oldest);
      }
      owners.set(pid, { owner, untilMs: nowMs + keptMs, goneNs: null });
    },
    find: (pid, beganNs = 0n) => {
      const known = owners.get(pid);
      if (known === undefined || known.untilMs <= clock.monotonicMs()) return undefined;
      return known.goneNs !== null && beganNs > known.goneNs ? undefined : known.owner;
    },
    scanned: (isRunning, atNs) => {
      for (const known of owners.values()) if (!isRunning(known.owner)) known.goneNs ??= atNs;
    },
  };
}
