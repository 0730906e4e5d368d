/**
 * Keeps the slave side of a terminal open until its program has exited. When the last descriptor closes, the terminal hangs up and the kernel sends
 * SIGHUP to its programs, so a program that closes its output just before it exits, such as `cat`, would be killed.
 */

import { closeSync, constants, openSync } from "node:fs";
import { processStateOf } from "../../host/index.ts";

/** All held terminals share one signal listener. */
const checks = new Set<() => void>();

/** `path` is the terminal's name, such as /dev/pts/3. It is released by the returned function or when `pid`, a child of this process, ends. */
export function holdTerminal(path: string, pid: number): () => void {
  let descriptor: number | undefined;
  try {
    // O_NOCTTY: as the agent's controlling terminal, its Ctrl-C would reach the agent.
    descriptor = openSync(path, constants.O_RDWR | constants.O_NOCTTY);
  } catch {
    // Already gone, or not visible here: continue without holding it.
    return () => undefined;
  }
  const release = (): void => {
    checks.delete(check);
    if (checks.size === 0) process.off("SIGCHLD", checkAll);
    if (descriptor !== undefined) closeSync(descriptor);
    descriptor = undefined;
  };
  const check = (): void => {
    if ((processStateOf(pid) ?? "Z") === "Z") release();
  };
  // The library reports the exit only after the terminal has closed, so check the process itself.
  if (checks.size === 0) process.on("SIGCHLD", checkAll);
  checks.add(check);
  check();
  return release;
}

function checkAll(): void {
  for (const check of checks) check();
}
