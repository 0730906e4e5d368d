/** Counts the seconds in which the traffic process did not observe the host. Pure; times are milliseconds of a monotonic clock. */

export interface UnobservedGap {
  fromMs: number;
  /** A whole number, at least 1. */
  seconds: number;
}

/** A gap starts at the last window, not where the process ended: what it counted after that window is lost with it. */
export class UnobservedTime {
  #lastSeenMs: number;
  /** True while the hooks are attached, and while none are expected. */
  #isCovered = false;

  constructor(nowMs: number) {
    this.#lastSeenMs = nowMs;
  }

  /** A window arrived: all time up to now is observed. */
  observed(nowMs: number): void {
    this.#lastSeenMs = nowMs;
  }

  /** Nothing is observed on purpose: this host is not supported, or traffic is off. */
  suspend(nowMs: number): void {
    this.#lastSeenMs = nowMs;
    this.#isCovered = true;
  }

  /** Observation is expected from now on. */
  resume(nowMs: number): void {
    this.#lastSeenMs = nowMs;
    this.#isCovered = false;
  }

  /** The process is not running: returns the whole seconds since the last gap or window. */
  takeWhileDown(nowMs: number): UnobservedGap | null {
    this.#isCovered = false;
    return this.#take(nowMs, Math.floor);
  }

  /** The hooks are attached: closes the gap. Null if there is none. */
  takeAtAttach(nowMs: number): UnobservedGap | null {
    if (this.#isCovered) return null;
    const gap = this.#take(nowMs, Math.ceil);
    this.#lastSeenMs = nowMs;
    this.#isCovered = true;
    return gap;
  }

  #take(nowMs: number, round: (seconds: number) => number): UnobservedGap | null {
    const fromMs = this.#lastSeenMs;
    const seconds = round((nowMs - fromMs) / 1_000);
    if (seconds < 1) return null;
    this.#lastSeenMs = Math.min(nowMs, fromMs + seconds * 1_000);
    return { fromMs, seconds };
  }
}
