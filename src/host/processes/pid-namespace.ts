import { statSync } from "node:fs";

export interface PidNamespace {
  /** As the kernel numbers devices inside: major in the upper twelve bits of 32, minor in the lower twenty. */
  device: number;
  inode: number;
  /** The first one of the machine, in which every process has its number. */
  isFirst: boolean;
}

/** <linux/proc_ns.h>, PROC_PID_INIT_INO. */
const firstInode = 0xefff_fffc;

/** The pid namespace of this process; null where the kernel does not report it. */
export function ownPidNamespace(path = "/proc/self/ns/pid"): PidNamespace | null {
  try {
    const { dev, ino } = statSync(path);
    // stat(2) packs the device number differently.
    const major = (dev >>> 8) & 0xfff;
    const minor = (dev & 0xff) | ((dev >>> 12) & 0xf_ff00);
    return { device: ((major << 20) | minor) >>> 0, inode: ino, isFirst: ino === firstInode };
  } catch {
    // No /proc, or no namespaces: then there is only one.
    return null;
  }
}
