/** An injectable clock. Use wall time for people and stored rows, monotonic time for timeouts, ages and health decisions. */

export interface Clock {
  /** Wall clock, milliseconds since 1970. May jump in either direction. */
  wallMs(): number;
  /** Never decreases. Milliseconds, origin unspecified (CLOCK_MONOTONIC on Linux). */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1_000 + Math.floor(nanoseconds / 1_000) / 1_000;
  },
};

/** Resolves after `delayMs`, or rejects with the signal's reason. The timer does not keep the process alive when `keepAlive` is false. */
export function sleep(delayMs: number, signal?: AbortSignal, keepAlive = true): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, delayMs);
    if (!keepAlive) timer.unref();
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
