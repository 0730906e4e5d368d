import type { Invocation } from "../../run/invocation.ts";
import { defaultStopTimeoutMs, printStopped } from "./print-stopped.ts";

/** `coral agent stop`. */
export async function run(invocation: Invocation): Promise<void> {
  const timeoutMs = invocation.options.durationMs("timeout") ?? defaultStopTimeoutMs;
  printStopped(invocation, "agent", await invocation.runtime.stop("agent", { timeoutMs }));
}
