/** Decides which processes to search for the owners of sockets, so that a scan with few changes reads few descriptors. */

import type { Pacer } from "../files/pacer.ts";
import type { ProcessChanges, ProcessEntry, ProcessTable } from "../processes/process-table.ts";
import { isSameProgram, LateWorkers } from "./late-workers.ts";
import { LikelyOwners } from "./likely-owners.ts";
import type { SocketOwners } from "./socket-owners.ts";
import type { SocketTracker } from "./socket-tracker.ts";
import type { TrackedSocket } from "./tracked-socket.ts";

/** Minimum interval between searches of all processes for a connection's owner; a listener always justifies one. */
const scansBetweenSweeps = 4;
const maxBackoff = 6;
/** Descriptors of likely owners that are read completely if a new socket was not found where sockets usually are. */
const likelyDescriptors = 3_000;
/** Descriptors read per scan to find owners of listeners that seem to have none. */
const exploredPerScan = 250;
/** Descriptors read per scan to find workers that got their socket late. More in the first scan, which may be the only one. */
const workerDescriptors = { first: 5_000, later: 250 };

export class OwnerSearch {
  readonly #table: ProcessTable;
  readonly #owners: SocketOwners;
  readonly #tracker: SocketTracker;
  readonly #likely: LikelyOwners;
  readonly #workers: LateWorkers;
  #lastSweep = Number.NEGATIVE_INFINITY;
  /** There was a listener without a known owner. */
  #hasLostListener = false;

  constructor(table: ProcessTable, owners: SocketOwners, tracker: SocketTracker) {
    this.#table = table;
    this.#owners = owners;
    this.#tracker = tracker;
    this.#likely = new LikelyOwners(table, owners, tracker);
    this.#workers = new LateWorkers({ table, owners, isListener: this.#isListener, isAlive: this.#isAlive });
  }

  /** Searches owners of sockets without one, within this scan's budget. */
  async run(changes: ProcessChanges, pacer: Pacer): Promise<void> {
    this.#owners.beginScan();
    for (const process of changes.removed) this.#owners.forgetProcess(process.pid);
    if (!this.#isFirst) this.#adoptChildren(changes.added);
    const sockets = this.#ownerless();
    if (this.#hasLostListener) this.#owners.explore(this.#table.values(), this.#isAlive, exploredPerScan);
    if (sockets.length > 0) await this.#search(sockets, changes, pacer);
    this.#workers.check(this.#isFirst ? workerDescriptors.first : workerDescriptors.later);
  }

  async #search(sockets: readonly TrackedSocket[], changes: ProcessChanges, pacer: Pacer): Promise<void> {
    const wanted = new Set(sockets.map((socket) => socket.inode));
    const isSweep = this.#isWorthASweep(sockets);
    if (isSweep) this.#lastSweep = this.#table.scan;
    const processes = isSweep ? this.#likely.everyProcess(sockets, changes) : this.#likely.of(sockets, changes);
    const isWorthTheRest = (unfound: number): boolean =>
      // Each unreadable process may own one of the listeners without an owner.
      isSweep ? unfound > this.#owners.denied : this.#owners.descriptorsRead < likelyDescriptors;
    await this.#owners.find({ wanted, processes, isSweep, isAlive: this.#isAlive, isWorthTheRest }, pacer);
    for (const socket of sockets) {
      const isListener = socket.role === null;
      if (wanted.has(socket.inode)) {
        this.#postpone(socket, isSweep);
        if (isListener) this.#hasLostListener = true;
      } else if (isListener) {
        findFamily(socket.inode, this.#table, this.#owners);
        this.#workers.expectFamily(socket.inode);
      }
    }
    this.#likely.remember(sockets);
  }

  #isWorthASweep(sockets: readonly TrackedSocket[]): boolean {
    if (this.#isFirst || sockets.some((socket) => socket.role === null)) return true;
    return sockets.some((socket) => socket.searches > 0) && this.#table.scan - this.#lastSweep >= scansBetweenSweeps;
  }

  /** Delays the next sweep of all processes: another one would not find more for a while. */
  #postpone(socket: TrackedSocket, wasSweep: boolean): void {
    const pause = wasSweep ? scansBetweenSweeps * 2 ** Math.min(maxBackoff, socket.searches) : 1;
    socket.searches++;
    socket.nextSearchScan = this.#table.scan + pause;
  }

  /** New children that inherited their parent's listener; a worker that receives its socket later has it under another descriptor. */
  #adoptChildren(added: readonly ProcessEntry[]): void {
    for (const child of added) {
      const parent = this.#table.get(child.parentPid);
      if (!parent || parent.pid === 1) continue;
      const shared = [...this.#owners.socketsOf(parent.pid)].filter(([, inode]) => this.#isListener(inode));
      const held = shared.filter(([descriptor, inode]) => this.#owners.probe(child, descriptor, inode));
      if (shared.length > 0 && held.length === 0 && isSameProgram(child, parent)) this.#workers.expect(child);
    }
  }

  #ownerless(): TrackedSocket[] {
    const found: TrackedSocket[] = [];
    for (const sockets of [this.#tracker.listeners, this.#tracker.connections]) {
      for (const socket of sockets.values()) {
        if (socket.nextSearchScan > this.#table.scan) continue;
        if (this.#owners.of(socket.inode).length === 0) found.push(socket);
      }
    }
    return found;
  }

  get #isFirst(): boolean {
    return this.#table.scan === 1;
  }

  readonly #isListener = (inode: number): boolean => this.#tracker.listeners.has(inode);

  readonly #isAlive = (inode: number): boolean => this.#tracker.connections.has(inode) || this.#isListener(inode);
}

/**
 * Listeners held by several processes: a socket opened before a fork has the same descriptor in the child. Checks parents and children of the
 * listener's known owners, recursively, for the same socket.
 */
function findFamily(inode: number, table: ProcessTable, owners: SocketOwners): void {
  const queue = [...owners.of(inode)];
  const visited = new Set(queue);
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    const descriptor = descriptorOf(inode, owners.socketsOf(pid));
    for (const relative of relativesOf(pid, table)) {
      if (visited.has(relative.pid) || relative.pid === 1) continue;
      visited.add(relative.pid);
      if (descriptor !== undefined && owners.probe(relative, descriptor, inode)) queue.push(relative.pid);
    }
  }
}

function relativesOf(pid: number, table: ProcessTable): ProcessEntry[] {
  const parent = table.get(table.get(pid)?.parentPid ?? 0);
  return [...(parent ? [parent] : []), ...table.childrenOf(pid)];
}

function descriptorOf(inode: number, sockets: Iterable<readonly [descriptor: number, inode: number]>): number | undefined {
  for (const [descriptor, held] of sockets) if (held === inode) return descriptor;
  return undefined;
}
