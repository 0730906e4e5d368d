/** Runs a collector at its interval. The store counts rows of failed appends; the loop continues. */

import { type Clock, sleep } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";

export interface CollectLoopOptions {
  name: string;
  /** Read again while waiting, so that a reload takes effect within seconds. */
  intervalMs: () => number;
  /** Samples and appends; resolves when the rows are stored. */
  collect: (signal: AbortSignal) => Promise<void>;
  /** Ends the wait early when rung. */
  alarm?: Alarm;
  clock: Clock;
  log: Logger;
}

/** Ends a wait early. Ringing without a waiter ends the next wait at once. */
export class Alarm {
  #isRinging = false;
  #wake: () => void = () => undefined;

  ring(): void {
    this.#isRinging = true;
    this.#wake();
  }

  /** Resolves after `delayMs`, when rung (true), or when aborted. */
  async wait(delayMs: number, signal: AbortSignal): Promise<boolean> {
    const woken = new AbortController();
    const wake = (): void => woken.abort();
    this.#wake = wake;
    signal.addEventListener("abort", wake, { once: true });
    if (this.#isRinging || signal.aborted) wake();
    await sleep(delayMs, woken.signal).catch(() => undefined); // rung or aborted: both end the wait
    signal.removeEventListener("abort", wake);
    const isRung = this.#isRinging;
    this.#isRinging = false;
    return isRung;
  }
}

/** Resolves when aborted. Samples are spaced from start to start; one that overruns its slot skips ahead instead of piling up. */
export async function runCollectLoop(options: CollectLoopOptions, signal: AbortSignal): Promise<void> {
  const { name, collect, clock, log } = options;
  let startMs = clock.monotonicMs();
  let lastFailure = "";
  while (!signal.aborted) {
    try {
      await collect(signal);
      if (lastFailure !== "") log.info(`Storing ${name} again`);
      lastFailure = "";
    } catch (error) {
      if (signal.aborted) return;
      const problem = CoralError.from(error);
      // Logged on change, not at every interval: the losses are reported with the data.
      log[problem.message === lastFailure ? "debug" : "error"](`Cannot collect ${name}: ${problem.message}; retrying`, {
        code: problem.code,
      });
      lastFailure = problem.message;
    }
    startMs = await nextStart(startMs, options, signal);
  }
}

/** How often a longer wait re-reads the interval. */
const intervalCheckMs = 5_000;

/** Resolves with the next start time when it is reached, when rung, or when aborted. */
async function nextStart(startMs: number, options: CollectLoopOptions, signal: AbortSignal): Promise<number> {
  const { clock, intervalMs, alarm = new Alarm() } = options;
  const overrunMs = clock.monotonicMs();
  for (;;) {
    const dueMs = Math.max(startMs + intervalMs(), overrunMs);
    const remainingMs = dueMs - clock.monotonicMs();
    if (remainingMs <= 0 || signal.aborted) return dueMs;
    const isRung = await alarm.wait(Math.min(remainingMs, intervalCheckMs), signal);
    if (isRung) return clock.monotonicMs();
  }
}
