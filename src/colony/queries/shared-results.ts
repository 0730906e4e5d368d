/** Results that several callers want at nearly the same time, computed once. */

import type { Clock } from "../../base/clock.ts";

export interface SharedResultsOptions<Result> {
  clock: Clock;
  /** No result is shared for longer than this after it was begun, unless it took more than a quarter of it. */
  maxAgeMs: number;
  /** Results at hand; the oldest are evicted. */
  maxKept: number;
  /** False for a result that the next caller must not get. */
  isShared: (result: Result) => boolean;
}

/**
 * A result is shared for ten times what it took, up to `maxAgeMs` and `patience` times what it took: where it is cheap it is as good as new, and
 * where it is expensive, as on a busy host, callers do not wait for one after the other. A failed one is not shared.
 */
const shareFor = 10;
const patience = 4;
/** Less than the interval of the health watch, which must not get the same result twice. */
const maxPatienceMs = 8_000;
/** From this part of its time on, a caller gets it and the next result is begun: callers that come often wait for none. */
const renewAt = 1 / 2;

interface Shared<Result> {
  result: Promise<Result>;
  startedMs: number;
  untilMs: number;
  isRenewed: boolean;
}

export class SharedResults<Result> {
  readonly #options: SharedResultsOptions<Result>;
  readonly #kept = new Map<string, Shared<Result>>();

  constructor(options: SharedResultsOptions<Result>) {
    this.#options = options;
  }

  /** What `compute` resolved to for an earlier caller with this key, or resolves to now. */
  get(key: string, compute: () => Promise<Result>): Promise<Result> {
    const nowMs = this.#options.clock.monotonicMs();
    const known = this.#kept.get(key);
    if (known === undefined || nowMs >= known.untilMs) return this.#begin(key, compute).result;
    if (!known.isRenewed && nowMs - known.startedMs >= renewAt * (known.untilMs - known.startedMs)) this.#renew(key, known, compute);
    return known.result;
  }

  /** While it is under way every caller waits for it, up to the limit of its age. */
  #begin(key: string, compute: () => Promise<Result>): Shared<Result> {
    const shared = this.#compute(compute);
    this.#keep(key, shared);
    return shared;
  }

  /** The known result stays until the next one is there. */
  #renew(key: string, known: Shared<Result>, compute: () => Promise<Result>): void {
    known.isRenewed = true;
    const next = this.#compute(compute);
    next.result.then(
      () => {
        if (this.#kept.get(key) === known) this.#keep(key, next);
      },
      // Who asks after the known result's time gets the failure of an attempt of their own.
      () => undefined,
    );
  }

  #compute(compute: () => Promise<Result>): Shared<Result> {
    const { clock, maxAgeMs, isShared } = this.#options;
    const startedMs = clock.monotonicMs();
    const shared: Shared<Result> = { result: compute(), startedMs, untilMs: startedMs + maxAgeMs, isRenewed: false };
    shared.result.then(
      (result) => {
        const nowMs = clock.monotonicMs();
        const tookMs = nowMs - startedMs;
        const limitMs = startedMs + Math.max(maxAgeMs, Math.min(patience * tookMs, maxPatienceMs));
        shared.untilMs = isShared(result) ? Math.min(limitMs, nowMs + tookMs * shareFor) : Number.NEGATIVE_INFINITY;
      },
      () => {
        shared.untilMs = Number.NEGATIVE_INFINITY;
      },
    );
    return shared;
  }

  #keep(key: string, shared: Shared<Result>): void {
    this.#kept.delete(key);
    this.#kept.set(key, shared);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.#options.maxKept) return;
      this.#kept.delete(oldest);
    }
  }
}
