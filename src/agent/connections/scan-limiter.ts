import type { Clock } from "../../base/clock.ts";

/** Scans that may follow each other at once, after an idle time. */
const scanBurst = 3;
/** After a burst, one scan per interval. */
const scanRefillMs = 15_000;

/** A token bucket for scans out of turn: a burst of three, then one every 15 seconds. */
export class ScanLimiter {
  readonly #clock: Clock;
  #tokens = scanBurst;
  #refilledMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#refilledMs = clock.monotonicMs();
  }

  /** False when no token is left. */
  take(): boolean {
    const refills = Math.floor((this.#clock.monotonicMs() - this.#refilledMs) / scanRefillMs);
    if (refills > 0) {
      this.#tokens = Math.min(scanBurst, this.#tokens + refills);
      this.#refilledMs += refills * scanRefillMs;
    }
    if (this.#tokens === 0) return false;
    this.#tokens--;
    return true;
  }
}
