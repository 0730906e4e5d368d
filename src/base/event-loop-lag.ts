/**
 * How late timers are because the event loop is busy. Node's own monitor would wake the process a hundred times a second, a third of what an idle agent
 * may use. So a timer of our own runs five times a second, and only while the figure is read: blocks that are shorter may fall between two timers.
 */

const intervalMs = 200;
/** Not read for so long: nothing scrapes it. */
const forgottenMs = 5 * 60_000;

export class EventLoopLag {
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #dueMs = 0;
  #maxMs = 0;
  #readMs = 0;

  /** `now`: milliseconds that never go back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The most since the last reading, in seconds. The first reading starts the measurement and is 0. */
  takeMaxSeconds(): number {
    this.#readMs = this.#now();
    if (this.#timer === undefined) {
      this.#dueMs = this.#readMs + intervalMs;
      this.#timer = setInterval(() => this.#tick(), intervalMs).unref();
    }
    // A timer that is late now counts as well.
    const maxMs = Math.max(this.#maxMs, this.#readMs - this.#dueMs, 0);
    this.#maxMs = 0;
    return maxMs / 1_000;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#maxMs = 0;
  }

  #tick(): void {
    const nowMs = this.#now();
    this.#maxMs = Math.max(this.#maxMs, nowMs - this.#dueMs);
    this.#dueMs = nowMs + intervalMs;
    if (nowMs - this.#readMs > forgottenMs) this.stop();
  }
}
