/** Whether the colony's store takes writes, and the event about a time in which it did not. */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { type ColonyStore, recordEvent } from "../../store/colony/index.ts";

interface Interruption {
  /** Of the first failure, wall. */
  sinceMs: number;
  /** Of the last one, monotonic. */
  failedAtMs: number;
  message: string;
}

/** On a full disk a small write still fits into the last block, so one that succeeded proves nothing until none has failed for so long. */
const quietMs = 10_000;

export class StoreWrites {
  readonly #clock: Clock;
  readonly #log: Logger;
  #failing: Interruption | undefined;

  constructor({ clock, log }: { clock: Clock; log: Logger }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Why the last write failed; empty while writes succeed. */
  get problem(): string {
    return this.#failing?.message ?? "";
  }

  /** After each write of the store; with its failure. Never calls the store, which is still in that write. */
  readonly onWrite = (failure: CoralError | undefined): void => {
    if (failure === undefined) return;
    const failedAtMs = this.#clock.monotonicMs();
    this.#failing = { sinceMs: this.#failing?.sinceMs ?? this.#clock.wallMs(), failedAtMs, message: failure.message };
  };

  /** Called every few seconds: tries a write while none is known to work, and reports the interruption once writes work again. */
  async check(store: Pick<ColonyStore, "write">): Promise<void> {
    const failing = this.#failing;
    if (failing === undefined || this.#clock.monotonicMs() - failing.failedAtMs < quietMs) return;
    const since = new Date(failing.sinceMs).toISOString();
    const message = `The colony could not store rows since ${since}: ${failing.message}`;
    const at = Math.floor(this.#clock.wallMs() * 1_000);
    try {
      await recordEvent(store, { at, kind: "store-write-failed", agentId: null, message, details: { since } });
    } catch (error) {
      this.#log.debug("the store still takes no event", { error: CoralError.from(error).message });
      return;
    }
    this.#failing = undefined;
  }
}
