/** Exit codes of commands on agents. */

import { constants } from "node:os";
import { exitCodeOf, isErrorCode } from "../../../base/errors.ts";
import type { CommandEnded } from "../../../proto/coral/agent/v1/commands_pb.ts";

/** 75 is EX_TEMPFAIL of sysexits.h: retrying the same command may succeed. */
export const exitCodes = { busy: 75, timeout: 124, outputLimit: 125, signalBase: 128, lost: 255 } as const;

/** Exit code for one agent: the command's own code, if it has one. */
export function exitCodeOfEnd(end: CommandEnded | undefined): number {
  if (end === undefined) return exitCodes.lost;
  switch (end.reason) {
    case "lost":
      return exitCodes.lost;
    case "exited":
      return end.exitCode;
    case "signalled":
      return exitCodeOfSignal(end.signal);
    case "timeout":
      return exitCodes.timeout;
    case "output-limit":
      return exitCodes.outputLimit;
    case "cancelled":
      return exitCodeOfSignal("INT");
    case "denied":
      return exitCodeOf("not-permitted");
    default:
      if (end.code === "exhausted") return exitCodes.busy;
      return isErrorCode(end.code) ? exitCodeOf(end.code) : 1;
  }
}

/** Exit code for several agents: 0 when all are 0, the common code when all refused for the same reason, else 1. */
export function exitCodeOfAll(ends: readonly (CommandEnded | undefined)[]): number {
  const codes = ends.map(exitCodeOfEnd);
  const [first = exitCodes.lost] = codes;
  if (codes.length <= 1) return first;
  const isShared = ends.every((end) => end?.reason === "denied" || end?.reason === "failed") && codes.every((code) => code === first);
  return isShared ? first : codes.every((code) => code === 0) ? 0 : 1;
}

/** 128 + signal number, as shells report it. Accepts `INT` and `SIGINT`. */
export function exitCodeOfSignal(name: string): number {
  const key = (name.startsWith("SIG") ? name : `SIG${name}`) as NodeJS.Signals;
  return exitCodes.signalBase + (constants.signals[key] ?? 0);
}

/** Text for the end at one agent: `exit 3`, `killed by KILL`, `timed out`. */
export function endText(end: CommandEnded | undefined): string {
  if (end === undefined) return "the connection was lost";
  switch (end.reason) {
    case "exited":
      return `exit ${end.exitCode}`;
    case "signalled":
      return `killed by ${end.signal}`;
    case "timeout":
      return "timed out";
    case "output-limit":
      return "wrote more output than allowed";
    case "cancelled":
      return "cancelled";
    case "denied":
      return `denied: ${end.problem}`;
    default:
      return end.problem || end.reason;
  }
}
