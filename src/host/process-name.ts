import { readFileSync } from "node:fs";
import { printable } from "./kernel-text.ts";

/** The kernel's name of a process that runs now, at most 15 characters; null when it has ended. One small read, for processes that may end soon. */
export function readProcessName(pid: number): string | null {
  try {
    return printable(readFileSync(`/proc/${pid}/comm`, "utf8").trimEnd(), 64) || null;
  } catch {
    // It has ended, or may not be looked at.
    return null;
  }
}
