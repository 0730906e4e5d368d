import { readdirSync, readlinkSync } from "node:fs";

/** What this process has open, by path: for tests that nothing stays open. */
export function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      // Closed since: the list's own one, or that of a read that has just ended.
      return [];
    }
  });
}
