/**
 * How many queries of one caller get an entry of their own. The audit is bounded, and somebody who may only read must not be able to push out of it what
 * others have done: beyond so many in a minute, queries are counted, and the count is an entry.
 */

interface Minute {
  startedMs: number;
  written: number;
  unwritten: number;
}

export const queriesPerMinute = 120;
const minuteMs = 60_000;
/** Callers that are remembered; those who come on top share one budget. */
const maxCallers = 1_000;
const others = "*";

export class QueryBudget {
  readonly #minutes = new Map<string, Minute>();

  /** Whether this one gets an entry. */
  take(caller: string, nowMs: number): boolean {
    const key = this.#minutes.has(caller) || this.#minutes.size < maxCallers ? caller : others;
    let minute = this.#minutes.get(key);
    if (!minute || (nowMs - minute.startedMs >= minuteMs && minute.unwritten === 0)) {
      minute = { startedMs: nowMs, written: 0, unwritten: 0 };
      this.#minutes.set(key, minute);
    }
    if (minute.written < queriesPerMinute) {
      minute.written++;
      return true;
    }
    minute.unwritten++;
    return false;
  }

  /** What was only counted in minutes that are over. It is forgotten here: the caller writes it down. */
  takeCounted(nowMs: number): { caller: string; queries: number; sinceMs: number }[] {
    const counted: { caller: string; queries: number; sinceMs: number }[] = [];
    for (const [caller, { startedMs, unwritten }] of this.#minutes) {
      if (nowMs - startedMs < minuteMs) continue;
      if (unwritten > 0) counted.push({ caller, queries: unwritten, sinceMs: nowMs - startedMs });
      this.#minutes.delete(caller);
    }
    return counted;
  }
}
