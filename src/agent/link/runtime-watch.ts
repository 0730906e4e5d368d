/** Looks again at where the agent runs, and sees to it that the colony hears of a change without the tunnel's end. */

import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { RuntimeFacts } from "../../model/runtime-facts.ts";
import type { RuntimeRefreshed } from "../../tools/index.ts";
import type { RuntimeReporter } from "../runtime/runtime-reporter.ts";
import type { ColonyLink } from "./colony-link.ts";
import type { SelfDescription } from "./self-description.ts";

export interface RuntimeWatchOptions {
  reporter: RuntimeReporter;
  link: Pick<ColonyLink, "tellAgain">;
  description: Pick<SelfDescription, "change" | "fingerprint">;
  clock: Clock;
  log: Logger;
}

export class RuntimeWatch {
  readonly #options: RuntimeWatchOptions;

  constructor(options: RuntimeWatchOptions) {
    this.#options = options;
  }

  current(): RuntimeFacts {
    return this.#options.reporter.current();
  }

  /** Looks at once, and tells the colony when something is different from `before`; default: from what is known now. */
  async refresh(reason: "refresh" | "config" | "requested", signal: AbortSignal, before?: RuntimeFacts): Promise<RuntimeRefreshed> {
    const { runtime, changes } = await this.#options.reporter.refresh(signal, before);
    return { runtime, changes, isTold: changes.length === 0 || (await this.tell(reason, signal)) };
  }

  /** False when there is no tunnel now: the next registration tells it anyway. */
  async tell(reason: string, signal: AbortSignal): Promise<boolean> {
    const { link, description } = this.#options;
    const told = description.fingerprint();
    if (!(await link.tellAgain(reason, signal))) return false;
    description.change.tell(told);
    return true;
  }

  /** For what changes by itself, such as hooks that fail: told once it lasts. */
  async tellWhenDue(signal: AbortSignal): Promise<void> {
    const { description, clock } = this.#options;
    if (description.change.isDue(description.fingerprint(), clock.monotonicMs())) await this.tell("capabilities", signal);
  }

  /** Until aborted. */
  async run(intervalMs: () => number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Aborted: the loop's condition ends it.
      await sleep(intervalMs(), signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.refresh("refresh", signal);
      } catch (error) {
        if (signal.aborted) return;
        // What was known stays; the next look may succeed.
        this.#options.log.warn(CoralError.from(error).message);
      }
    }
  }
}
