/** Keeps account of the time in which nobody watched. Pure; milliseconds of a monotonic clock. */

export interface AwayGap {
  fromMs: number;
  /** Whole, at least 1. */
  seconds: number;
}

/** What the process counted after its last window is lost with it, so a gap begins there and not where the process ended. */
export class AwayTime {
  #lastSeenMs: number;
  /** While true, nobody is expected to watch, or somebody does. */
  #isCovered = false;

  constructor(nowMs: number) {
    this.#lastSeenMs = nowMs;
  }

  /** A window came: everything up to now is accounted for. */
  seen(nowMs: number): void {
    this.#lastSeenMs = nowMs;
  }

  /** Nothing is watched, on purpose. */
  none(nowMs: number): void {
    this.#lastSeenMs = nowMs;
    this.#isCovered = true;
  }

  /** From now on somebody is expected to watch. */
  begin(nowMs: number): void {
    this.#lastSeenMs = nowMs;
    this.#isCovered = false;
  }

  /** The process is gone, or still not back: the seconds since the last account. */
  still(nowMs: number): AwayGap | null {
    this.#isCovered = false;
    return this.#take(nowMs, Math.floor);
  }

  /** The hooks are attached; null when they were before. */
  back(nowMs: number): AwayGap | null {
    if (this.#isCovered) return null;
    const gap = this.#take(nowMs, Math.ceil);
    this.#lastSeenMs = nowMs;
    this.#isCovered = true;
    return gap;
  }

  #take(nowMs: number, round: (seconds: number) => number): AwayGap | null {
    const fromMs = this.#lastSeenMs;
    const seconds = round((nowMs - fromMs) / 1_000);
    if (seconds < 1) return null;
    this.#lastSeenMs = Math.min(nowMs, fromMs + seconds * 1_000);
    return { fromMs, seconds };
  }
}
