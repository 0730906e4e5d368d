/** Refreshes the runtime context, and reports changes to the colony without closing the tunnel. */

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
  link: Pick<ColonyLink, "reregister">;
  description: Pick<SelfDescription, "reported" | "fingerprint">;
  clock: Clock;
  log: Logger;
}

/** Reports over the existing tunnel. If the agent is not connected, the next registration has the new context. */
export class RuntimeWatch {
  readonly #options: RuntimeWatchOptions;

  constructor(options: RuntimeWatchOptions) {
    this.#options = options;
  }

  current(): RuntimeFacts {
    return this.#options.reporter.current();
  }

  /** Detects now, and reports to the colony when the context differs from `before`; default: from the current one. */
  async refresh(reason: "refresh" | "config" | "requested", signal: AbortSignal, before?: RuntimeFacts): Promise<RuntimeRefreshed> {
    const { runtime, changes } = await this.#options.reporter.refresh(signal, before);
    return { runtime, changes, isTold: changes.length === 0 || (await this.report(reason, signal)) };
  }

  /** False without a tunnel: the next registration reports it anyway. */
  async report(reason: string, signal: AbortSignal): Promise<boolean> {
    const { link, description } = this.#options;
    const fingerprint = description.fingerprint();
    if (!(await link.reregister(reason, signal))) return false;
    description.reported.markReported(fingerprint);
    return true;
  }

  /** Reports changes that happen without a refresh, such as failing hooks, once they are stable. */
  async reportWhenDue(signal: AbortSignal): Promise<void> {
    const { description, clock } = this.#options;
    if (description.reported.isDue(description.fingerprint(), clock.monotonicMs())) await this.report("capabilities", signal);
  }

  /** Refreshes at the interval until aborted. */
  async run(intervalMs: () => number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Aborted: the loop's condition ends it.
      await sleep(intervalMs(), signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.refresh("refresh", signal);
      } catch (error) {
        if (signal.aborted) return;
        // Keeps the previous context; the next refresh may succeed.
        this.#options.log.warn(CoralError.from(error).message);
      }
    }
  }
}
