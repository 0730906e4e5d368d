import type { Row } from "../engine/sql-values.ts";

/** Rows that a collector produced and the store could not keep. */
export interface LossCount {
  signal: string;
  reason: "disk-full" | "queue-full" | (string & {});
  /** Since the store was created. */
  rows: number;
}

/** Counts in memory, because a full disk is the usual reason. Written with the next successful commit. */
export class LossCounts {
  readonly #counts = new Map<string, LossCount>();
  #changes = 0;
  #savedChanges = 0;

  load(rows: readonly Row[]): void {
    for (const row of rows) this.#entry(String(row["signal"]), String(row["reason"])).rows = Number(row["rows"]);
  }

  add(signal: string, reason: string, rows: number): void {
    this.#entry(signal, reason).rows += rows;
    this.#changes++;
  }

  list(): LossCount[] {
    return [...this.#counts.values()].map((count) => ({ ...count }));
  }

  /** Unsaved counts, if any. Call `saved` after the commit. */
  unsaved(): { counts: LossCount[]; saved: () => void } | undefined {
    const changes = this.#changes;
    if (changes === this.#savedChanges) return undefined;
    const saved = (): void => {
      this.#savedChanges = changes;
    };
    return { counts: this.list(), saved };
  }

  #entry(signal: string, reason: string): LossCount {
    const key = `${signal} ${reason}`;
    let entry = this.#counts.get(key);
    if (entry === undefined) {
      entry = { signal, reason, rows: 0 };
      this.#counts.set(key, entry);
    }
    return entry;
  }
}
