/** Whose processes made connections lately: the kernel tells of many only after their process has ended, and no scan knows it any more. */

import type { Clock } from "../../base/clock.ts";
import type { Owner } from "./connection-owner.ts";

/** The kernel tells what it has added up every ten seconds, and the next scan may be half a minute away. */
const keptMs = 120_000;
const maxCallers = 4_096;

export interface CallerMemory {
  remember(pid: number, owner: Owner): void;
  /** Undefined when it was not heard of lately. */
  find(pid: number): Owner | undefined;
}

export function createCallerMemory(clock: Clock): CallerMemory {
  /** Those heard of last are at the end. */
  const callers = new Map<number, { owner: Owner; untilMs: number }>();
  return {
    remember: (pid, owner) => {
      const nowMs = clock.monotonicMs();
      callers.delete(pid);
      for (const [oldest, { untilMs }] of callers) {
        if (untilMs > nowMs && callers.size < maxCallers) break;
        callers.delete(oldest);
      }
      callers.set(pid, { owner, untilMs: nowMs + keptMs });
    },
    find: (pid) => {
      const known = callers.get(pid);
      return known !== undefined && known.untilMs > clock.monotonicMs() ? known.owner : undefined;
    },
  };
}
