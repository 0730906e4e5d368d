import type { Invocation } from "../../run/invocation.ts";
import { defaultStopTimeoutMs, printStopped } from "../agent/print-stopped.ts";
import { localColonyId } from "./local-colony.ts";

/** `coral colony stop`. */
export async function run(invocation: Invocation): Promise<void> {
  const colonyId = await localColonyId(invocation);
  const timeoutMs = invocation.options.durationMs("timeout") ?? defaultStopTimeoutMs;
  printStopped(invocation, "colony", await invocation.runtime.stop("colony", { colonyId, timeoutMs }));
}
