import { readdirSync, readFileSync } from "node:fs";

/** A `sleep` that is told from every other one on this machine: those of other tests, and what an earlier try of the same test left. */
export interface NamedSleep {
  /** For a shell. */
  command: string;
  pids(): number[];
}

let given = 0;

export function namedSleep(): NamedSleep {
  // Its seconds are all that a sleep can be named by.
  const seconds = `90000.${process.pid}${String(given++).padStart(4, "0")}`;
  return { command: `sleep ${seconds}`, pids: () => processesWhere((line) => line === `sleep\0${seconds}\0`) };
}

/** Pids of other processes that have this text in their command line; it should be one that nobody else has. */
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
        // Gone meanwhile.
        return false;
      }
    });
}
