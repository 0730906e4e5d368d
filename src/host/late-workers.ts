/**
 * Workers that get the socket they serve after their start: their parent hands it over (node's cluster), or they open it when they are ready.
 * The socket has an owner by then, so nobody would look for another one. Relatives of an owner that run the same program are looked at again
 * when their number of descriptors changes, for a while.
 */

import type { ProcessEntry, ProcessTable } from "./process-table.ts";
import type { SocketOwners } from "./socket-owners.ts";

export interface LateWorkers {
  /** A process that may get what its relatives hold. */
  expect(process: ProcessEntry): void;
  /** All relatives of the owners of a listener that run the same program. */
  expectFamily(inode: number): void;
  /** Reads the descriptors of those that changed, the newest first. */
  look(): void;
  /** Processes that are waited for. */
  readonly size: number;
}

export interface LateWorkersOptions {
  table: ProcessTable;
  owners: SocketOwners;
  isListener: (inode: number) => boolean;
  /** True for sockets that are still there. */
  isAlive: (inode: number) => boolean;
  /** Descriptors read per scan at most; default 250. */
  descriptorsPerScan?: number;
}

/** Looks cost one stat each; who has nothing after so many is no worker. */
const maxLooks = 60;
/** A process that opens and closes files all the time is read this often. */
const maxReads = 12;
const maxWaiting = 2_000;
const maxFamily = 10_000;
const maxAncestors = 8;

interface Waiting {
  process: ProcessEntry;
  looks: number;
  reads: number;
}

export function createLateWorkers(options: LateWorkersOptions): LateWorkers {
  const { table, owners, isListener, isAlive, descriptorsPerScan = 250 } = options;
  const waiting = new Map<number, Waiting>();
  /** Processes whose family was asked in this scan. */
  const families = new Set<number>();

  const holdsListener = (pid: number): boolean => {
    for (const [, inode] of owners.socketsOf(pid)) if (isListener(inode)) return true;
    return false;
  };

  const expect = (process: ProcessEntry): void => {
    const known = waiting.get(process.pid);
    if (known?.process.startTicks === process.startTicks || holdsListener(process.pid)) return;
    waiting.delete(process.pid);
    if (waiting.size >= maxWaiting) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined) waiting.delete(oldest);
    }
    waiting.set(process.pid, { process, looks: 0, reads: 0 });
  };

  /** The first ancestor of a row that runs the same program. */
  const headOf = (process: ProcessEntry): ProcessEntry => {
    let head = process;
    for (let step = 0; step < maxAncestors; step++) {
      const parent = table.get(head.parentPid);
      if (!parent || parent.pid === 1 || !isSameProgram(parent, head)) break;
      head = parent;
    }
    return head;
  };

  const expectFamily = (inode: number): void => {
    for (const pid of owners.of(inode)) {
      const owner = table.get(pid);
      // A family with many listeners is asked once.
      if (!owner || families.has(owner.pid)) continue;
      const queue = [headOf(owner)];
      for (let next = queue.pop(); next !== undefined && families.size < maxFamily; next = queue.pop()) {
        if (families.has(next.pid)) continue;
        families.add(next.pid);
        expect(next);
        for (const child of table.childrenOf(next.pid)) if (isSameProgram(child, next)) queue.push(child);
      }
    }
  };

  const look = (): void => {
    families.clear();
    let left = descriptorsPerScan;
    for (const entry of [...waiting.values()].reverse()) {
      const { process } = entry;
      const isOver = entry.looks++ >= maxLooks || entry.reads >= maxReads || holdsListener(process.pid);
      if (isOver || table.get(process.pid)?.startTicks !== process.startTicks) {
        waiting.delete(process.pid);
        continue;
      }
      if (left <= 0 || !owners.hasChanged(process)) continue;
      const before = owners.looked;
      owners.explore([process], isAlive, left, true);
      entry.reads++;
      left -= owners.looked - before;
    }
  };

  return {
    expect,
    expectFamily,
    look,
    get size() {
      return waiting.size;
    },
  };
}

/** Programs that write what they do into their name (`gunicorn: worker`) keep what stands before the colon. */
export function isSameProgram(one: ProcessEntry, other: ProcessEntry): boolean {
  const base = (name: string): string => name.split(/[:\s]/, 1)[0] ?? name;
  return base(one.name) === base(other.name);
}
