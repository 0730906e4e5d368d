/** How long one turn may hold up everything else. */
const turnMs = 8;

/** Lets others run now and then during long work. */
export class Turn {
  #startMs = performance.now();

  /** True when others had a turn. */
  async yield(): Promise<boolean> {
    if (performance.now() - this.#startMs < turnMs) return false;
    await new Promise((resolve) => setImmediate(resolve));
    this.#startMs = performance.now();
    return true;
  }
}
