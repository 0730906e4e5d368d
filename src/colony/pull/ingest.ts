/**
 * The single writer for all pulls, with group commit: pulls that finish while a transaction runs, or shortly after, share the next one. The pull pool
 * bounds the queue, because each pull waits here for its commit.
 */

import { CoralError } from "../../base/errors.ts";
import type { ColonyStore, PullOutcome } from "../../store/colony/index.ts";
import type { AgentPull } from "../../store/tables/index.ts";

interface Waiting {
  pull: AgentPull;
  resolve: (outcome: PullOutcome) => void;
  reject: (error: unknown) => void;
}

export interface IngestOptions {
  /** Default 64. */
  maxPerTransaction?: number;
  /** Minimum time between the starts of two transactions, unless enough is queued. Default 100. */
  gatherMs?: number;
  /** Called with the pulls of each committed transaction. */
  onStored?: (pulls: readonly AgentPull[]) => void;
}

/** This many pulls or rows start a transaction at once. Even a small one costs 10 ms of CPU, most of it in DuckDB, per table. */
const enoughPulls = 16;
const enoughRows = 2_000;

export class Ingest {
  readonly #store: Pick<ColonyStore, "applyPulls">;
  readonly #maxPerTransaction: number;
  readonly #gatherMs: number;
  readonly #onStored: (pulls: readonly AgentPull[]) => void;
  readonly #waiting: Waiting[] = [];
  #waitingRows = 0;
  #isDraining = false;
  #startedMs = Number.NEGATIVE_INFINITY;
  /** Ends the gathering early. */
  #stopGathering: (() => void) | undefined;

  constructor(
    store: Pick<ColonyStore, "applyPulls">,
    { maxPerTransaction = 64, gatherMs = 100, onStored = () => undefined }: IngestOptions = {},
  ) {
    this.#store = store;
    this.#maxPerTransaction = maxPerTransaction;
    this.#gatherMs = gatherMs;
    this.#onStored = onStored;
  }

  /** Resolves when the rows and the new checkpoint are committed; rejects when they were not, or when the answer was malformed. */
  submit(pull: AgentPull): Promise<PullOutcome> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ pull, resolve, reject });
      this.#waitingRows += rowsOf(pull);
      if (!this.#isDraining) void this.#drain();
      else if (this.#hasEnough()) this.#stopGathering?.();
    });
  }

  /** Never rejects: each failure rejects the pulls that it affects. */
  async #drain(): Promise<void> {
    this.#isDraining = true;
    while (this.#waiting.length > 0) {
      const waitMs = this.#startedMs + this.#gatherMs - performance.now();
      if (waitMs > 0 && !this.#hasEnough()) await this.#gather(waitMs);
      const group = this.#waiting.splice(0, this.#maxPerTransaction);
      for (const { pull } of group) this.#waitingRows -= rowsOf(pull);
      this.#startedMs = performance.now();
      try {
        const outcomes = await this.#store.applyPulls(group.map((waiting) => waiting.pull));
        for (const [index, waiting] of group.entries()) settle(waiting, outcomes[index]);
        this.#onStored(group.map((waiting) => waiting.pull));
      } catch (error) {
        // Nothing was committed: every puller retries from its checkpoint.
        for (const waiting of group) waiting.reject(error);
      }
    }
    this.#isDraining = false;
  }

  #hasEnough(): boolean {
    return this.#waiting.length >= Math.min(enoughPulls, this.#maxPerTransaction) || this.#waitingRows >= enoughRows;
  }

  async #gather(waitMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.#stopGathering = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#stopGathering = undefined;
  }
}

function rowsOf({ slices }: AgentPull): number {
  return slices.reduce((total, { batch }) => total + (batch?.rows ?? 0), 0);
}

function settle(waiting: Waiting, outcome: PullOutcome | undefined): void {
  if (outcome === undefined)
    waiting.reject(new CoralError({ code: "internal", message: "Cannot store a pull: the store returned no result for it" }));
  else if (outcome.error) waiting.reject(outcome.error);
  else waiting.resolve(outcome);
}
