/**
 * Keeps the other end of a terminal open until its program has ended. When the last descriptor of that end is closed the terminal counts as gone, is closed
 * here, and the kernel sends SIGHUP to every program still at it: a program that closes its output a moment before it ends, as `cat` does, would be ended by a signal.
 */

import { closeSync, constants, openSync } from "node:fs";
import { processStateOf } from "../../host/index.ts";

/** Of all terminals that are held; a process has one listener of a signal for them all. */
const looks = new Set<() => void>();

/** `path` is the terminal's name, such as /dev/pts/3. The returned function lets go of it, as does the end of `pid`, a child of this process. */
export function holdTerminal(path: string, pid: number): () => void {
  let descriptor: number | undefined;
  try {
    // Not as the agent's own terminal: then its Ctrl-C would be the agent's.
    descriptor = openSync(path, constants.O_RDWR | constants.O_NOCTTY);
  } catch {
    // It is gone already, or has no name here: what happens then is what happens without this.
    return () => undefined;
  }
  const letGo = (): void => {
    looks.delete(look);
    if (looks.size === 0) process.off("SIGCHLD", lookAtAll);
    if (descriptor !== undefined) closeSync(descriptor);
    descriptor = undefined;
  };
  const look = (): void => {
    if ((processStateOf(pid) ?? "Z") === "Z") letGo();
  };
  // The library waits for the terminal's end before it reports the program's, so ask the kernel.
  if (looks.size === 0) process.on("SIGCHLD", lookAtAll);
  looks.add(look);
  look();
  return letGo;
}

function lookAtAll(): void {
  for (const look of looks) look();
}
