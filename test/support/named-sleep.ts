import { readdirSync, readFileSync } from "node:fs";

/** A `sleep` command that differs from every other one on this machine, including leftovers of an earlier run of the same test. */
export interface NamedSleep {
  /** A shell command. */
  command: string;
  pids(): number[];
}

let given = 0;

export function namedSleep(): NamedSleep {
  // The number of seconds is the only distinguishing mark of a sleep.
  const seconds = `90000.${process.pid}${String(given++).padStart(4, "0")}`;
  return { command: `sleep ${seconds}`, pids: () => processesWhere((line) => line === `sleep\0${seconds}\0`) };
}

/** Pids of other processes with this text in their command line; the text should be unique. */
export function processesWith(text: string): number[] {
  return processesWhere((line) => line.includes(text));
}

function processesWhere(isWanted: (commandLine: string) => boolean): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        return pid > 0 && pid !== process.pid && isWanted(readFileSync(`/proc/${pid}/cmdline`, "utf8"));
      } catch {
        // The process has ended.
        return false;
      }
    });
}
