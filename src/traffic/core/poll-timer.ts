/** One timer for all periodic work of the traffic process, so that an idle host is woken twice a second and not once per task. */

const longestMs = 500;
const ticksPerWindow = 5;

export class PollTimer implements Disposable {
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #intervalMs: number;

  constructor(windowMs: number) {
    this.#intervalMs = intervalOf(windowMs);
  }

  /** Windows end at ticks, so short windows need more of them. */
  setWindow(windowMs: number): void {
    const intervalMs = intervalOf(windowMs);
    if (intervalMs === this.#intervalMs) return;
    this.#intervalMs = intervalMs;
    if (this.#timer !== undefined) this.#start();
  }

  /** Calls the listener at every tick, after those added before it, until the result is disposed. */
  onTick(listener: () => void): Disposable {
    this.#listeners.add(listener);
    if (this.#timer === undefined) this.#start();
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  #start(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      for (const listener of this.#listeners) listener();
    }, this.#intervalMs);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }
}

function intervalOf(windowMs: number): number {
  return Math.min(longestMs, windowMs / ticksPerWindow);
}
