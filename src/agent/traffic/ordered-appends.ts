import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";

/** Appends rows of windows to the store, one window after the other. A failure loses its rows only: the store counts them and reports them with the data. */
export class OrderedAppends {
  readonly #what: string;
  readonly #log: Logger;
  #lastFailure = "";
  #last: Promise<void> = Promise.resolve();

  /** `what`: name of the rows, for log lines. */
  constructor(what: string, log: Logger) {
    this.#what = what;
    this.#log = log;
  }

  add(append: () => Promise<unknown>): void {
    this.#last = this.#last.then(async () => {
      try {
        await append();
        if (this.#lastFailure !== "") this.#log.info(`storing ${this.#what} again`);
        this.#lastFailure = "";
      } catch (error) {
        // Logged on change, not for every window.
        const { message, code } = CoralError.from(error);
        const level = message === this.#lastFailure ? "debug" : "error";
        this.#log[level](`cannot store ${this.#what}: ${message}; counting the rows as lost`, { code });
        this.#lastFailure = message;
      }
    });
  }

  /** Resolves when everything added so far has been stored or has failed. */
  settled(): Promise<void> {
    return this.#last;
  }
}
