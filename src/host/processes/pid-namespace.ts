import { statSync } from "node:fs";
import { initialPidNamespace } from "../../model/runtime-facts.ts";

export interface PidNamespace {
  inode: number;
  /** The initial namespace of the machine, in which every process has a pid. */
  isFirst: boolean;
}

/** The pid namespace of this process; null where the kernel does not report it. */
export function ownPidNamespace(path = "/proc/self/ns/pid"): PidNamespace | null {
  try {
    const { ino } = statSync(path);
    return { inode: ino, isFirst: ino === initialPidNamespace };
  } catch {
    // No /proc, or no namespaces: then there is only one.
    return null;
  }
}
