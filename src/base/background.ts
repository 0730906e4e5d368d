import { sleep } from "./clock.ts";
import { CoralError } from "./errors.ts";
import type { Logger } from "./log.ts";

/** Runs a promise in the background: a failure is logged under a name, a cancellation is not. The only place where a promise may float. */
export function background(log: Logger, name: string, promise: Promise<unknown>): void {
  promise.catch((error: unknown) => {
    if (error instanceof Error && error.name === "AbortError") return;
    log.error(`${name} stopped`, { error });
  });
}

/** Runs a task every `intervalMs` until aborted; the interval is read before each wait. Repeated identical failures are logged once and do not end the loop. */
export async function repeat(
  name: string,
  intervalMs: number | (() => number),
  task: () => Promise<unknown>,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  let lastFailure = "";
  while (!signal.aborted) {
    try {
      await task();
      if (lastFailure !== "") log.info(`${name} works again`);
      lastFailure = "";
    } catch (error) {
      const problem = CoralError.from(error);
      log[problem.message === lastFailure ? "debug" : "error"](`${name} failed: ${problem.message}`, { code: problem.code });
      lastFailure = problem.message;
    }
    await sleep(typeof intervalMs === "number" ? intervalMs : intervalMs(), signal).catch(() => undefined); // aborted: the loop's condition ends it
  }
}
