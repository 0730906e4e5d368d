/**
 * Keeps the slave side of a terminal open until its program has ended. When its last descriptor closes, the terminal hangs up, is closed
 * here, and the kernel sends SIGHUP to its programs: one that closes its output just before it exits, such as `cat`, would die of a signal.
 */

import { closeSync, constants, openSync } from "node:fs";
import { processStateOf } from "../../host/index.ts";

/** All held terminals share one signal listener. */
const looks = new Set<() => void>();

/** `path` is the terminal's name, such as /dev/pts/3. It is released by the returned function or when `pid`, a child of this process, ends. */
export function holdTerminal(path: string, pid: number): () => void {
  let descriptor: number | undefined;
  try {
    // Not as the agent's controlling terminal: its Ctrl-C would reach the agent.
    descriptor = openSync(path, constants.O_RDWR | constants.O_NOCTTY);
  } catch {
    // Already gone, or not visible here: continue without holding it.
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
  // The library reports the exit only after the terminal has closed, so ask the kernel.
  if (looks.size === 0) process.on("SIGCHLD", lookAtAll);
  looks.add(look);
  look();
  return letGo;
}

function lookAtAll(): void {
  for (const look of looks) look();
}
