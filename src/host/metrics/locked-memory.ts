import { readFileSync } from "node:fs";

/** Kernel memory behind a BPF map that this process has open, in bytes; 0 if the kernel does not report it. */
export function lockedMapBytes(fd: number): number {
  try {
    return parseLockedBytes(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"));
  } catch {
    // Closed meanwhile, or no /proc: an unknown cost is not an error.
    return 0;
  }
}

export function parseLockedBytes(text: string): number {
  return Number(/^memlock:\s*(\d+)$/m.exec(text)?.[1] ?? 0);
}
