import type { Logger } from "./log.ts";

/** The only place where a promise may float: its failure is logged with a name, and cancellation is not a failure. */
export function background(log: Logger, name: string, promise: Promise<unknown>): void {
  promise.catch((error: unknown) => {
    if (error instanceof Error && error.name === "AbortError") return;
    log.error(`${name} stopped`, { error });
  });
}
