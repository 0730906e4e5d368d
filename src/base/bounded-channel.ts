/** A bounded queue between one or more writers and one reader. */
export class BoundedChannel<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  readonly #maxItems: number;
  #isEnded = false;
  #dropped = 0;
  #wakeReader: (() => void) | undefined;
  #wakeWriters: (() => void)[] = [];

  constructor(maxItems: number) {
    this.#maxItems = maxItems;
  }

  /** Number of items that `offer` dropped because the channel was full or had ended. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Returns false, and counts the item as dropped, if the channel is full or has ended. */
  offer(item: T): boolean {
    if (this.#isEnded || this.#items.length >= this.#maxItems) {
      this.#dropped++;
      return false;
    }
    this.#push(item);
    return true;
  }

  /** Waits for a free slot. Resolves to false if the channel ends meanwhile. */
  async put(item: T): Promise<boolean> {
    while (!this.#isEnded && this.#items.length >= this.#maxItems) {
      await new Promise<void>((resolve) => {
        this.#wakeWriters.push(resolve);
      });
    }
    if (this.#isEnded) return false;
    this.#push(item);
    return true;
  }

  /** For the reader, between two items: takes queued items from the front while `fits` accepts them. */
  takeWhile(fits: (item: T) => boolean): T[] {
    const end = this.#items.findIndex((item) => !fits(item));
    const taken = this.#items.splice(0, end < 0 ? this.#items.length : end);
    if (taken.length > 0) for (const wake of this.#wakeWriters.splice(0)) wake();
    return taken;
  }

  /** The reader still gets queued items, then `last`, even beyond the bound. Idempotent. */
  end(last?: T): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (last !== undefined) this.#items.push(last);
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    try {
      for (;;) {
        const item = this.#items.shift();
        if (item !== undefined) {
          for (const wake of this.#wakeWriters.splice(0)) wake();
          yield item;
          continue;
        }
        if (this.#isEnded) return;
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve;
        });
      }
    } finally {
      this.end();
    }
  }

  #push(item: T): void {
    this.#items.push(item);
    this.#wakeReader?.();
    this.#wakeReader = undefined;
  }

  #wake(): void {
    this.#wakeReader?.();
    this.#wakeReader = undefined;
    for (const wake of this.#wakeWriters.splice(0)) wake();
  }
}
