/** The pulse of the traffic process: one timer for all that is looked at regularly, so that an idle host is woken twice a second and not once for each. */

const longestMs = 500;
const beatsPerWindow = 5;

export class Beat implements Disposable {
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #intervalMs: number;

  constructor(windowMs: number) {
    this.#intervalMs = intervalOf(windowMs);
  }

  /** Windows end at beats. */
  setWindow(windowMs: number): void {
    const intervalMs = intervalOf(windowMs);
    if (intervalMs === this.#intervalMs) return;
    this.#intervalMs = intervalMs;
    if (this.#timer !== undefined) this.#start();
  }

  /** Until it is disposed; in the order in which they came. */
  on(listener: () => void): Disposable {
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
  return Math.min(longestMs, windowMs / beatsPerWindow);
}
