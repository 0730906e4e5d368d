/** Descriptors of a process, as listed in /proc/<pid>/fd. */

import { createReadTally, type HostRoot, type ReadTally } from "../files/host-root.ts";

const socketLink = "socket:[";

export class DescriptorDirectory {
  readonly #root: HostRoot;
  /** Since Linux 6.2 the size of the directory is the number of descriptors. */
  readonly #kernelCounts: boolean;

  constructor(root: HostRoot) {
    this.#root = root;
    const ownSize = root.stat("/proc/self/fd")?.sizeBytes ?? 0;
    // The listing itself holds one more open.
    this.#kernelCounts = ownSize > 0 && Math.abs(ownSize - (root.list("/proc/self/fd")?.length ?? 0)) <= 1;
  }

  /** Number of descriptors of the process; -1 where the kernel does not report it without listing them. */
  count(pid: number): number {
    return this.#kernelCounts ? (this.#root.stat(`/proc/${pid}/fd`)?.sizeBytes ?? -1) : -1;
  }

  /** Null if the process has exited or access is denied; `isDenied` distinguishes the two. */
  list(pid: number): { numbers: readonly number[] | null; isDenied: boolean } {
    const tally = createReadTally();
    const numbers = this.#root.list(`/proc/${pid}/fd`, tally)?.map(Number) ?? null;
    return { numbers, isDenied: numbers === null && tally.denied > 0 };
  }

  /** Inode of the socket under a descriptor, 0 for anything else; null when it cannot be read. */
  socketAt(pid: number, descriptor: number, tally?: ReadTally): number | null {
    const link = this.#root.readLink(`/proc/${pid}/fd/${descriptor}`, tally);
    if (link === null) return null;
    return link.startsWith(socketLink) ? Number(link.slice(socketLink.length, -1)) : 0;
  }
}
