/** Finds the share of ordinary traces that keeps stored spans within a byte budget, and tracks which traces are wanted. */

import type { SamplingPlan } from "./sampling.ts";
import { TraceSet, traceIdBytes } from "./trace-set.ts";

export interface SamplingBudgetOptions {
  /** Segment bytes per second; undefined keeps everything. */
  bytesPerSecond: number | undefined;
  slowMs: number;
}

/** The outcome for one segment. */
export interface SegmentOutcome {
  /** Stored. */
  rows: number;
  sizeBytes: number;
  dropped: number;
  rescued: number;
  wantedRows: number;
  wanted: Uint8Array;
}

/** Over which the rates are averaged. */
const averageMs = 10_000;
/** Shares are powers of one half: a trace chosen at one share is chosen at all greater ones. */
const maxHalvings = 12;
/** Trace ids that other segments may need, 16 bytes each. The oldest are evicted. */
const maxWanted = 16_384;

/** One per receiver, across all workers. Without `bytesPerSecond` it does nothing. */
export class SamplingBudget {
  readonly #bytesPerSecond: number | undefined;
  readonly #slowNs: number;
  readonly #wanted = new TraceSet(maxWanted);
  #halvings = 0;
  #ordinaryPerSecond = 0;
  #wantedPerSecond = 0;
  #bytesPerRow = 160;
  #updatedAtMs: number | undefined;
  #pendingOrdinary = 0;
  #pendingWanted = 0;

  constructor(options: SamplingBudgetOptions) {
    this.#bytesPerSecond = options.bytesPerSecond;
    this.#slowNs = options.slowMs * 1e6;
  }

  get share(): number {
    return 2 ** -this.#halvings;
  }

  /** Undefined while everything is kept. */
  plan(): SamplingPlan | undefined {
    if (this.#bytesPerSecond === undefined) return undefined;
    return { share: this.share, slowNs: this.#slowNs, wanted: this.#wanted.packed() };
  }

  /** After each segment. `nowMs` is monotonic. */
  report(outcome: SegmentOutcome, nowMs: number): void {
    if (this.#bytesPerSecond === undefined) return;
    for (let at = 0; at < outcome.wanted.length; at += traceIdBytes) this.#wanted.add(outcome.wanted, at);
    this.#pendingWanted += outcome.wantedRows + outcome.rescued;
    this.#pendingOrdinary += outcome.rows - outcome.rescued - outcome.wantedRows + outcome.dropped;
    if (outcome.rows > 0) this.#bytesPerRow += (outcome.sizeBytes / outcome.rows - this.#bytesPerRow) * 0.2;
    this.#updatedAtMs ??= nowMs;
    const elapsedMs = nowMs - this.#updatedAtMs;
    // Rates over a shorter time are meaningless.
    if (elapsedMs < 500) return;
    const part = 1 - Math.exp(-elapsedMs / averageMs);
    this.#ordinaryPerSecond += ((this.#pendingOrdinary * 1_000) / elapsedMs - this.#ordinaryPerSecond) * part;
    this.#wantedPerSecond += ((this.#pendingWanted * 1_000) / elapsedMs - this.#wantedPerSecond) * part;
    this.#pendingOrdinary = 0;
    this.#pendingWanted = 0;
    this.#updatedAtMs = nowMs;
    this.#adjust(this.#bytesPerSecond);
  }

  /** Decreases at once, increases only with headroom, so that it does not oscillate. */
  #adjust(bytesPerSecond: number): void {
    const room = Math.max(0, bytesPerSecond / this.#bytesPerRow - this.#wantedPerSecond);
    const needed = (halvings: number): number => this.#ordinaryPerSecond * 2 ** -halvings;
    while (this.#halvings < maxHalvings && needed(this.#halvings) > room) this.#halvings++;
    while (this.#halvings > 0 && needed(this.#halvings - 1) < room * 0.8) this.#halvings--;
  }
}
