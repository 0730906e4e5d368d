import { readFileSync } from "node:fs";
import { printable } from "../../base/escape-text.ts";

/** Bytes of the kernel's name of a process, the last of them 0. */
const nameBytes = 16;

/** The kernel's name of a process in a record of a hook; null if it is empty. */
export function decodeProcessName(bytes: Buffer, at: number): string | null {
  const end = bytes.indexOf(0, at);
  const last = Math.min(end < 0 ? bytes.length : end, at + nameBytes);
  return last <= at ? null : printable(bytes.toString("utf8", at, last), 64) || null;
}

/** The kernel's name of a process that runs now, at most 15 characters; null when it has ended. One small read, for processes that may end soon. */
export function readProcessName(pid: number): string | null {
  try {
    return printable(readFileSync(`/proc/${pid}/comm`, "utf8").trimEnd(), 64) || null;
  } catch {
    // It has exited, or access is denied.
    return null;
  }
}
