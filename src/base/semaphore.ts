/** Lets at most `limit` tasks run at once; others wait in order. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#free = limit;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      // The slot is handed over rather than freed, so that a new caller cannot overtake the queue.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}
