import type { Clock } from "../../base/clock.ts";

const scansAtOnce = 3;
const refillMs = 15_000;

/** How many scans may be made out of turn: a few at once, then one each quarter of a minute. */
export class ScanAllowance {
  readonly #clock: Clock;
  #left = scansAtOnce;
  #refilledMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#refilledMs = clock.monotonicMs();
  }

  /** False when none is left now. */
  take(): boolean {
    const refills = Math.floor((this.#clock.monotonicMs() - this.#refilledMs) / refillMs);
    if (refills > 0) {
      this.#left = Math.min(scansAtOnce, this.#left + refills);
      this.#refilledMs += refills * refillMs;
    }
    if (this.#left === 0) return false;
    this.#left--;
    return true;
  }
}
