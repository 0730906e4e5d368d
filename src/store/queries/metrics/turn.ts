/** Longest time to block the event loop, milliseconds. */
const turnMs = 8;

/** Yields to the event loop during long computations. */
export class Turn {
  #startMs = performance.now();

  /** Resolves to true if the event loop ran in between. */
  async yield(): Promise<boolean> {
    if (performance.now() - this.#startMs < turnMs) return false;
    await new Promise((resolve) => setImmediate(resolve));
    this.#startMs = performance.now();
    return true;
  }
}
