import { setTimeout as sleep } from "node:timers/promises";

export interface WaitOptions {
  /** Default 120 s: a correct test must pass on a busy machine where daemons get a fraction of a processor. */
  timeoutMs?: number;
  /** Pause between two polls. Default 50 ms. A probe that takes longer, such as a command, gets a longer pause. */
  intervalMs?: number;
  /** Added to the error, such as a daemon's last log lines. */
  details?: () => string;
}

/** The longest pause that a slow probe gets. */
const maxSlowPauseMs = 500;

/**
 * Polls `probe` until it returns something other than undefined, null or false, and returns that. A probe that throws counts as not ready;
 * on timeout its last error becomes the cause. `what` completes "waited for …".
 */
export async function waitFor<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, undefined | null | false>> {
  const { timeoutMs = 120_000, intervalMs = 50 } = options;
  const deadlineMs = performance.now() + timeoutMs;
  let lastError: unknown;
  let lastValue: unknown;
  do {
    const startMs = performance.now();
    try {
      const value = await probe();
      if (value !== undefined && value !== null && value !== false) return value as Exclude<T, undefined | null | false>;
      lastError = undefined;
      lastValue = value;
    } catch (error) {
      // Daemons that are starting or stopped return errors; the last one is reported below.
      lastError = error;
    }
    // Without this pause, a test that polls with a command keeps a processor busy.
    await sleep(Math.max(intervalMs, Math.min(2 * (performance.now() - startMs), maxSlowPauseMs)));
  } while (performance.now() < deadlineMs);
  const seen = lastError === undefined ? `last seen: ${String(lastValue)}` : `last error: ${String(lastError)}`;
  throw new Error(`waited ${timeoutMs} ms for ${what}; ${seen}${options.details ? `\n${options.details()}` : ""}`, { cause: lastError });
}
