/** Runs one collector at its interval and appends what it made. A failed append is counted by the store; the loop goes on. */

import { type Clock, sleep } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";

export interface CollectLoopOptions {
  name: string;
  /** Read again while waiting, so that a reloaded config counts within seconds. */
  intervalMs: () => number;
  /** Samples and appends; resolves when the rows are stored. */
  collect: () => Promise<void>;
  clock: Clock;
  log: Logger;
}

/** Resolves when aborted. Samples are spaced from start to start; one that overruns its slot skips ahead instead of piling up. */
export async function runCollectLoop(options: CollectLoopOptions, signal: AbortSignal): Promise<void> {
  const { name, collect, clock, log } = options;
  let startMs = clock.monotonicMs();
  let lastFailure = "";
  while (!signal.aborted) {
    try {
      await collect();
      if (lastFailure !== "") log.info(`${name} is stored again`);
      lastFailure = "";
    } catch (error) {
      const problem = CoralError.from(error);
      // Said once, not every 15 s: the losses are counted and reported with the data.
      log[problem.message === lastFailure ? "debug" : "error"](`Cannot collect ${name}: ${problem.message}`, { code: problem.code });
      lastFailure = problem.message;
    }
    startMs = await nextStart(startMs, options, signal);
  }
}

/** How often a longer wait looks whether the interval has changed. */
const intervalCheckMs = 5_000;

/** Resolves when the next sample is due, or aborted, with the time it was due at. */
async function nextStart(startMs: number, { clock, intervalMs }: CollectLoopOptions, signal: AbortSignal): Promise<number> {
  const overrunMs = clock.monotonicMs();
  for (;;) {
    const dueMs = Math.max(startMs + intervalMs(), overrunMs);
    const leftMs = dueMs - clock.monotonicMs();
    if (leftMs <= 0 || signal.aborted) return dueMs;
    await sleep(Math.min(leftMs, intervalCheckMs), signal).catch(() => undefined); // aborted: the condition above ends it
  }
}
