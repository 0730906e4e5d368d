/**
 * One writer for all pulls. While a transaction runs, finished pulls gather; the next transaction takes them all (group commit).
 * The bound is the pull pool's: each pull in flight waits here for its own commit, so no more than that can gather.
 */

import { CoralError } from "../base/errors.ts";
import type { AgentPull, ColonyStore, PullOutcome } from "../store/index.ts";

interface Waiting {
  pull: AgentPull;
  resolve: (outcome: PullOutcome) => void;
  reject: (error: unknown) => void;
}

export class Ingest {
  readonly #store: Pick<ColonyStore, "applyPulls">;
  readonly #maxPerTransaction: number;
  readonly #waiting: Waiting[] = [];
  #isDraining = false;

  constructor(store: Pick<ColonyStore, "applyPulls">, maxPerTransaction = 64) {
    this.#store = store;
    this.#maxPerTransaction = maxPerTransaction;
  }

  /** Resolves when the rows and the new checkpoint are committed; rejects when nothing was, or the answer was malformed. */
  submit(pull: AgentPull): Promise<PullOutcome> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ pull, resolve, reject });
      if (!this.#isDraining) void this.#drain();
    });
  }

  /** Never rejects: each failure goes to the pulls it belongs to. */
  async #drain(): Promise<void> {
    this.#isDraining = true;
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, this.#maxPerTransaction);
      try {
        const outcomes = await this.#store.applyPulls(group.map((waiting) => waiting.pull));
        for (const [index, waiting] of group.entries()) settle(waiting, outcomes[index]);
      } catch (error) {
        // Nothing of the group was committed: every puller asks again from its checkpoint.
        for (const waiting of group) waiting.reject(error);
      }
    }
    this.#isDraining = false;
  }
}

function settle(waiting: Waiting, outcome: PullOutcome | undefined): void {
  if (outcome === undefined)
    waiting.reject(new CoralError({ code: "internal", message: "Cannot store a pull: the store gave no result for it" }));
  else if (outcome.error) waiting.reject(outcome.error);
  else waiting.resolve(outcome);
}
