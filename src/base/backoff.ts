/** Exponential backoff with jitter, for reconnects. */

export interface BackoffOptions {
  /** Default 250 ms. */
  initialMs?: number;
  /** Default 15 s. */
  maxMs?: number;
  /** 0..1, injectable for tests. */
  random?: () => number;
}

export interface Backoff {
  /** The next delay, milliseconds: between half and all of a doubling window. */
  nextMs(): number;
  /** Call after a success. */
  reset(): void;
}

export function createBackoff(options: BackoffOptions = {}): Backoff {
  const initialMs = options.initialMs ?? 250;
  const maxMs = options.maxMs ?? 15_000;
  const random = options.random ?? Math.random;
  let windowMs = initialMs;
  return {
    nextMs: () => {
      const delayMs = windowMs / 2 + (random() * windowMs) / 2;
      windowMs = Math.min(maxMs, windowMs * 2);
      return delayMs;
    },
    reset: () => {
      windowMs = initialMs;
    },
  };
}
