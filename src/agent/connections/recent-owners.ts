/** Owners of recent connections, by pid: the kernel reports many connections after their process has exited and left the scan. */

import type { Clock } from "../../base/clock.ts";
import type { Owner } from "./connection-owner.ts";

/** The kernel flushes its counts every ten seconds, and the next scan may be half a minute later. A longer time risks a reused pid. */
const keptMs = 120_000;
const maxOwners = 4_096;

export interface RecentOwners {
  add(pid: number, owner: Owner): void;
  /** Undefined for a pid that was not added in the last two minutes. */
  find(pid: number): Owner | undefined;
}

export function createRecentOwners(clock: Clock): RecentOwners {
  /** Least recently added first. */
  const owners = new Map<number, { owner: Owner; untilMs: number }>();
  return {
    add: (pid, owner) => {
      const nowMs = clock.monotonicMs();
      owners.delete(pid);
      for (const [oldest, { untilMs }] of owners) {
        if (untilMs > nowMs && owners.size < maxOwners) break;
        owners.delete(oldest);
      }
      owners.set(pid, { owner, untilMs: nowMs + keptMs });
    },
    find: (pid) => {
      const known = owners.get(pid);
      return known !== undefined && known.untilMs > clock.monotonicMs() ? known.owner : undefined;
    },
  };
}
