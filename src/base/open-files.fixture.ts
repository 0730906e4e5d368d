import { readdirSync, readlinkSync } from "node:fs";

/** Files that this process has open, by path, for leak tests. */
export function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      // Closed meanwhile: the listing's own descriptor, or one of a read that just ended.
      return [];
    }
  });
}
