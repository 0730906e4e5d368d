/**
 * Finds workers that get a socket some time after their start: their parent passes it on (Node's cluster), or they open it when they are ready. The
 * socket already has an owner by then, so a normal search would not find them. Relatives of an owner that run the same program are re-read for a
 * while whenever their number of descriptors changes.
 */

import type { ProcessEntry, ProcessTable } from "../processes/process-table.ts";
import type { SocketOwners } from "./socket-owners.ts";

export interface LateWorkersOptions {
  table: ProcessTable;
  owners: SocketOwners;
  isListener: (inode: number) => boolean;
  /** True for sockets that are still there. */
  isAlive: (inode: number) => boolean;
}

/** Each check costs one stat; a process without the socket after this many is not a worker. */
const maxChecks = 60;
/** Limit for processes that constantly open and close files. */
const maxReads = 12;
const maxWaiting = 2_000;
const maxFamily = 10_000;
const maxAncestors = 8;

interface Waiting {
  process: ProcessEntry;
  checks: number;
  reads: number;
}

export class LateWorkers {
  readonly #options: LateWorkersOptions;
  readonly #waiting = new Map<number, Waiting>();
  /** Processes whose family was checked in this scan. */
  readonly #families = new Set<number>();

  constructor(options: LateWorkersOptions) {
    this.#options = options;
  }

  /** A process that may receive a socket of its relatives. */
  expect(process: ProcessEntry): void {
    const waiting = this.#waiting;
    const known = waiting.get(process.pid);
    if (known?.process.startTicks === process.startTicks || this.#holdsListener(process.pid)) return;
    waiting.delete(process.pid);
    if (waiting.size >= maxWaiting) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined) waiting.delete(oldest);
    }
    waiting.set(process.pid, { process, checks: 0, reads: 0 });
  }

  /** All relatives of the owners of a listener that run the same program. */
  expectFamily(inode: number): void {
    const { table, owners } = this.#options;
    const families = this.#families;
    for (const pid of owners.of(inode)) {
      const owner = table.get(pid);
      // A family with many listeners is checked once.
      if (!owner || families.has(owner.pid)) continue;
      const queue = [this.#headOf(owner)];
      for (let next = queue.pop(); next !== undefined && families.size < maxFamily; next = queue.pop()) {
        if (families.has(next.pid)) continue;
        families.add(next.pid);
        this.expect(next);
        for (const child of table.childrenOf(next.pid)) if (isSameProgram(child, next)) queue.push(child);
      }
    }
  }

  /** Reads the descriptors of candidates that changed or were only partially read, newest first; at most about `limit` descriptors. */
  check(limit: number): void {
    const { table, owners, isAlive } = this.#options;
    this.#families.clear();
    let left = limit;
    for (const entry of [...this.#waiting.values()].reverse()) {
      const { process } = entry;
      const isOver = entry.checks++ >= maxChecks || entry.reads >= maxReads || this.#holdsListener(process.pid);
      if (isOver || table.get(process.pid)?.startTicks !== process.startTicks) {
        this.#waiting.delete(process.pid);
        continue;
      }
      if (left <= 0 || (owners.isReadWhole(process) && !owners.hasChanged(process))) continue;
      const before = owners.descriptorsRead;
      owners.explore([process], isAlive, left, true);
      entry.reads++;
      left -= owners.descriptorsRead - before;
    }
  }

  #holdsListener(pid: number): boolean {
    for (const [, inode] of this.#options.owners.socketsOf(pid)) if (this.#options.isListener(inode)) return true;
    return false;
  }

  /** The first ancestor of a row that runs the same program. */
  #headOf(process: ProcessEntry): ProcessEntry {
    let head = process;
    for (let step = 0; step < maxAncestors; step++) {
      const parent = this.#options.table.get(head.parentPid);
      if (!parent || parent.pid === 1 || !isSameProgram(parent, head)) break;
      head = parent;
    }
    return head;
  }
}

/** Compares the names up to a colon or blank: programs append their state (`gunicorn: worker`). */
export function isSameProgram(one: ProcessEntry, other: ProcessEntry): boolean {
  const base = (name: string): string => name.split(/[:\s]/, 1)[0] ?? name;
  return base(one.name) === base(other.name);
}
