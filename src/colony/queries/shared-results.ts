/** Results that several callers want at nearly the same time, computed once. */

import type { Clock } from "../../base/clock.ts";

export interface SharedResultsOptions<Result> {
  clock: Clock;
  /** No result is shared for longer than this after it was begun. */
  maxAgeMs: number;
  /** Results at hand; the oldest are evicted. */
  maxKept: number;
  /** False for a result that the next caller must not get. */
  isShared: (result: Result) => boolean;
}

/**
 * A result is shared for ten times what it took: where it is cheap it is as good as new, and where it is expensive its callers together cost a
 * tenth of a core. Never for longer than `maxAgeMs`, and a failed one not at all.
 */
const shareFor = 10;

interface Shared<Result> {
  result: Promise<Result>;
  untilMs: number;
}

export class SharedResults<Result> {
  readonly #options: SharedResultsOptions<Result>;
  readonly #kept = new Map<string, Shared<Result>>();

  constructor(options: SharedResultsOptions<Result>) {
    this.#options = options;
  }

  /** What `compute` resolved to for an earlier caller with this key, or resolves to now. */
  get(key: string, compute: () => Promise<Result>): Promise<Result> {
    const { clock, maxAgeMs, maxKept, isShared } = this.#options;
    const startedMs = clock.monotonicMs();
    const known = this.#kept.get(key);
    if (known !== undefined && startedMs < known.untilMs) return known.result;
    // While it is under way every caller waits for it, up to the limit of its age.
    const shared: Shared<Result> = { result: compute(), untilMs: startedMs + maxAgeMs };
    this.#kept.delete(key);
    this.#kept.set(key, shared);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= maxKept) break;
      this.#kept.delete(oldest);
    }
    shared.result.then(
      (result) => {
        const nowMs = clock.monotonicMs();
        shared.untilMs = isShared(result) ? Math.min(shared.untilMs, nowMs + (nowMs - startedMs) * shareFor) : Number.NEGATIVE_INFINITY;
      },
      () => {
        shared.untilMs = Number.NEGATIVE_INFINITY;
      },
    );
    return shared.result;
  }
}
