/** Detects load that justifies trading memory for speed. */

import type { Clock } from "../../base/clock.ts";

export interface LoadWatchOptions {
  clock: Pick<Clock, "monotonicMs">;
  /** Called for each change; starts as not busy. */
  onChange: (isBusy: boolean) => void;
}

const windowMs = 1_000;
/** In one window. A request costs about as much as ten rows. */
const busyRows = 5_000;
const rowsOfRequest = 10;
/** Busy until every window stayed below the limit for this long. */
const calmMs = 60_000;

/** Checks on requests, and once after the last: no timer runs while the load is low. */
export class LoadWatch implements Disposable {
  readonly #options: LoadWatchOptions;
  #windowStartMs = Number.NEGATIVE_INFINITY;
  #rows = 0;
  #calmTimer: NodeJS.Timeout | undefined;

  constructor(options: LoadWatchOptions) {
    this.#options = options;
  }

  get isBusy(): boolean {
    return this.#calmTimer !== undefined;
  }

  /** Counts an accepted request and its rows. */
  count(rows: number): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#windowStartMs >= windowMs) {
      this.#windowStartMs = nowMs;
      this.#rows = 0;
    }
    const before = this.#rows;
    this.#rows += rows + rowsOfRequest;
    // Once per window.
    if (before < busyRows && this.#rows >= busyRows) this.#busy();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#calmTimer);
    this.#calmTimer = undefined;
  }

  #busy(): void {
    if (this.#calmTimer === undefined) this.#options.onChange(true);
    clearTimeout(this.#calmTimer);
    this.#calmTimer = setTimeout(() => {
      this.#calmTimer = undefined;
      this.#options.onChange(false);
    }, calmMs).unref();
  }
}
