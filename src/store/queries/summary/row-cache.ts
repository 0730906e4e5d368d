const keptMs = 60_000;
const answersMax = 8;

/** Caches results of queries over settled time ranges. */
export class RowCache<T> {
  readonly #kept = new Map<string, { atMs: number; rows: Promise<T> }>();

  /** Results are reused for one minute, so late rows show after at most that. Keeps at most eight results. */
  async rows(key: string, nowMs: number, read: () => Promise<T>): Promise<T> {
    for (const [old, { atMs }] of this.#kept) if (Math.abs(nowMs - atMs) > keptMs || this.#kept.size > answersMax) this.#kept.delete(old);
    const kept = this.#kept.get(key);
    if (kept) return await kept.rows;
    const rows = read();
    this.#kept.set(key, { atMs: nowMs, rows });
    try {
      return await rows;
    } catch (error) {
      // A failure is not cached: the next call reads again.
      this.#kept.delete(key);
      throw error;
    }
  }
}
