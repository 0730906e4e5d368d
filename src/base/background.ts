import type { Logger } from "./log.ts";

/** Runs a promise in the background: a failure is logged under a name, a cancellation is not. The only place where a promise may float. */
export function background(log: Logger, name: string, promise: Promise<unknown>): void {
  promise.catch((error: unknown) => {
    if (error instanceof Error && error.name === "AbortError") return;
    log.error(`${name} stopped`, { error });
  });
}
