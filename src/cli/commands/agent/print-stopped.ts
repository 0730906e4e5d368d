import { formatDurationMs } from "../../../base/units.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { DaemonStopped } from "../../run/runtime.ts";

/** A daemon that did not run is no failure: what was asked for holds. */
export function printStopped(invocation: Invocation, what: string, stopped: DaemonStopped): void {
  if (stopped.kind === "not-running") invocation.print.note(`${what} was not running`);
  else invocation.print.answer(`${what} stopped, pid ${stopped.pid} ended after ${formatDurationMs(stopped.tookMs)}\n`);
}

export const defaultStopTimeoutMs = 30_000;
