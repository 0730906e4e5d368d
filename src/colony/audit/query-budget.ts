/**
 * Limits how many queries of a caller get an audit entry of their own. The audit is bounded, so a caller with read permission could otherwise evict
 * the entries of others. Queries over the limit are counted, and the count is one entry.
 */

interface Minute {
  startedMs: number;
  recorded: number;
  counted: number;
}

export const queriesPerMinute = 120;
const minuteMs = 60_000;
/** Callers with a budget of their own; all others share one. */
const maxCallers = 1_000;
const others = "*";

export class QueryBudget {
  readonly #minutes = new Map<string, Minute>();

  /** Whether this query gets an entry. */
  take(caller: string, nowMs: number): boolean {
    const key = this.#minutes.has(caller) || this.#minutes.size < maxCallers ? caller : others;
    let minute = this.#minutes.get(key);
    if (!minute || (nowMs - minute.startedMs >= minuteMs && minute.counted === 0)) {
      minute = { startedMs: nowMs, recorded: 0, counted: 0 };
      this.#minutes.set(key, minute);
    }
    if (minute.recorded < queriesPerMinute) {
      minute.recorded++;
      return true;
    }
    minute.counted++;
    return false;
  }

  /** Removes and returns the counts of past minutes; the caller records them. */
  takeCounted(nowMs: number): { caller: string; queries: number; sinceMs: number }[] {
    const counted: { caller: string; queries: number; sinceMs: number }[] = [];
    for (const [caller, { startedMs, counted: queries }] of this.#minutes) {
      if (nowMs - startedMs < minuteMs) continue;
      if (queries > 0) counted.push({ caller, queries, sinceMs: nowMs - startedMs });
      this.#minutes.delete(caller);
    }
    return counted;
  }
}
