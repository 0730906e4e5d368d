/** Known holders of sockets. Bounded by running processes and open sockets: both are removed when they end. */

import type { ProcessEntry } from "../processes/process-table.ts";

/** One process and its known sockets. */
export interface Holder {
  readonly pid: number;
  readonly startTicks: number;
  /** Inodes by descriptor. */
  readonly sockets: Map<number, number>;
  /** Its descriptors are not readable. */
  isDenied: boolean;
  /** The scan that read all of its descriptors; 0 for none so far. */
  wholeScan: number;
  /** Number of descriptors at the last check; -1 if unknown. */
  count: number;
}

const maxOwnersPerSocket = 64;

export class SocketHolders {
  readonly #byPid = new Map<number, Holder>();
  readonly #byInode = new Map<number, number[]>();

  /** Undefined if unknown, or known only for an earlier process with this pid. */
  known(process: ProcessEntry): Holder | undefined {
    const holder = this.#byPid.get(process.pid);
    return holder?.startTicks === process.startTicks ? holder : undefined;
  }

  /** Starts tracking the process. */
  of(process: ProcessEntry): Holder {
    const known = this.known(process);
    if (known) return known;
    this.forgetProcess(process.pid);
    const { pid, startTicks } = process;
    const holder: Holder = { pid, startTicks, sockets: new Map(), isDenied: false, wholeScan: 0, count: -1 };
    this.#byPid.set(pid, holder);
    return holder;
  }

  add(holder: Holder, descriptor: number, inode: number): void {
    holder.sockets.set(descriptor, inode);
    const pids = this.#byInode.get(inode);
    if (!pids) this.#byInode.set(inode, [holder.pid]);
    else if (!pids.includes(holder.pid) && pids.length < maxOwnersPerSocket) {
      pids.push(holder.pid);
      pids.sort((one, other) => one - other);
    }
  }

  /** Pids that hold the socket, ascending. */
  ownersOf(inode: number): readonly number[] {
    return this.#byInode.get(inode) ?? [];
  }

  /** Descriptor and inode of each known socket of the process. */
  socketsOf(pid: number): Iterable<readonly [descriptor: number, inode: number]> {
    return this.#byPid.get(pid)?.sockets ?? [];
  }

  forgetProcess(pid: number): void {
    for (const inode of this.#byPid.get(pid)?.sockets.values() ?? []) {
      const pids = this.#byInode.get(inode)?.filter((one) => one !== pid) ?? [];
      if (pids.length === 0) this.#byInode.delete(inode);
      else this.#byInode.set(inode, pids);
    }
    this.#byPid.delete(pid);
  }

  forgetSocket(inode: number): void {
    this.#byInode.delete(inode);
  }

  /** Unreadable processes. */
  get denied(): number {
    let count = 0;
    for (const holder of this.#byPid.values()) if (holder.isDenied) count++;
    return count;
  }
}
