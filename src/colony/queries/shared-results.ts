/** Short-lived cache that computes a result once for callers at nearly the same time. */

import type { Clock } from "../../base/clock.ts";

export interface SharedResultsOptions<Result> {
  clock: Clock;
  /** Maximum age of a result, from the start of its computation, unless that took more than a quarter of this. */
  maxAgeMs: number;
  /** Maximum number of results; the oldest are evicted. */
  maxKept: number;
  /** Changes with what results are computed from: while it stays the same, a result is used for up to eight seconds. Default: it always changes. */
  version?: () => number;
  /** Returns false for a result that must not be cached. */
  isShared: (result: Result) => boolean;
}

/**
 * Caches a result for ten times its computation time, up to `maxAgeMs` and `patience` times the computation time: cheap results
 * stay fresh, and callers of expensive ones, as on a busy host, do not queue. Failures are not cached.
 */
const shareFor = 10;
const patience = 4;
/** Less than the interval of the health watch, which must not get the same result twice. */
const maxPatienceMs = 8_000;
/** Share of the lifetime after which a call also starts a refresh, so that frequent callers never wait. */
const renewAt = 1 / 2;

interface Shared<Result> {
  result: Promise<Result>;
  startedMs: number;
  untilMs: number;
  isRenewed: boolean;
  /** At the start of the computation. */
  version: number | undefined;
}

export class SharedResults<Result> {
  readonly #options: SharedResultsOptions<Result>;
  readonly #kept = new Map<string, Shared<Result>>();

  constructor(options: SharedResultsOptions<Result>) {
    this.#options = options;
  }

  /** Returns the cached result for the key, or computes it. */
  get(key: string, compute: () => Promise<Result>): Promise<Result> {
    const nowMs = this.#options.clock.monotonicMs();
    const known = this.#kept.get(key);
    if (known !== undefined && this.#isCurrent(known, nowMs)) return known.result;
    if (known === undefined || nowMs >= known.untilMs) return this.#begin(key, compute).result;
    if (!known.isRenewed && nowMs - known.startedMs >= renewAt * (known.untilMs - known.startedMs)) this.#renew(key, known, compute);
    return known.result;
  }

  #isCurrent({ version, startedMs, untilMs }: Shared<Result>, nowMs: number): boolean {
    const isUsable = version !== undefined && untilMs !== Number.NEGATIVE_INFINITY;
    return isUsable && version === this.#options.version?.() && nowMs - startedMs < maxPatienceMs;
  }

  /** Concurrent callers share a running computation, up to its maximum age. */
  #begin(key: string, compute: () => Promise<Result>): Shared<Result> {
    const shared = this.#compute(compute);
    this.#keep(key, shared);
    return shared;
  }

  /** Keeps the current result until the next one is ready. */
  #renew(key: string, known: Shared<Result>, compute: () => Promise<Result>): void {
    known.isRenewed = true;
    const next = this.#compute(compute);
    next.result.then(
      () => {
        if (this.#kept.get(key) === known) this.#keep(key, next);
      },
      // A failed refresh is dropped: once the result expires, the next caller computes and sees its own failure.
      () => undefined,
    );
  }

  #compute(compute: () => Promise<Result>): Shared<Result> {
    const { clock, maxAgeMs, isShared } = this.#options;
    const startedMs = clock.monotonicMs();
    const version = this.#options.version?.();
    const shared: Shared<Result> = { result: compute(), startedMs, untilMs: startedMs + maxAgeMs, isRenewed: false, version };
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
