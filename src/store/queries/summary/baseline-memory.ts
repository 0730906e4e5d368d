import type { SummaryRequestsFact } from "../../../model/summary.ts";

const baselinesKeptMs = 60_000;
const baselinesMax = 8;

/** Caches the baselines of all services, which change only every ten minutes. One for each store. */
export class BaselineMemory {
  readonly #kept = new Map<string, { atMs: number; rows: Promise<SummaryRequestsFact[]> }>();

  /** Late rows are seen a minute later; at most eight different questions are remembered. */
  async rows(key: string, nowMs: number, read: () => Promise<SummaryRequestsFact[]>): Promise<SummaryRequestsFact[]> {
    for (const [old, { atMs }] of this.#kept)
      if (Math.abs(nowMs - atMs) > baselinesKeptMs || this.#kept.size > baselinesMax) this.#kept.delete(old);
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
