/** Candidate owners of a socket without a known owner, most likely first. */

import type { ProcessChanges, ProcessEntry, ProcessTable } from "../processes/process-table.ts";
import type { SocketOwners } from "./socket-owners.ts";
import type { SocketTracker } from "./socket-tracker.ts";
import { localEndOf, type TrackedSocket } from "./tracked-socket.ts";

/** Cached endpoints with their last caller. */
const maxCallers = 20_000;

export class LikelyOwners {
  readonly #table: ProcessTable;
  readonly #owners: SocketOwners;
  readonly #tracker: SocketTracker;
  /** The last caller of an address and port, likely to call it again. */
  readonly #callers = new Map<string, number>();

  constructor(table: ProcessTable, owners: SocketOwners, tracker: SocketTracker) {
    this.#table = table;
    this.#owners = owners;
    this.#tracker = tracker;
  }

  /** Each process once: candidates by socket, then processes that started since, then those whose descriptors changed. */
  *of(sockets: readonly TrackedSocket[], changes: ProcessChanges): Generator<ProcessEntry> {
    const given = new Set<number>();
    for (const pid of this.#candidates(sockets, changes, given)) {
      const entry = given.has(pid) ? undefined : this.#table.get(pid);
      if (!entry) continue;
      given.add(pid);
      yield entry;
    }
  }

  /** Likely owners, then all other processes. */
  *everyProcess(sockets: readonly TrackedSocket[], changes: ProcessChanges): Generator<ProcessEntry> {
    const given = new Set<number>();
    for (const entry of this.of(sockets, changes)) {
      given.add(entry.pid);
      yield entry;
    }
    for (const entry of this.#table.values()) if (!given.has(entry.pid)) yield entry;
  }

  /** Records the callers of sockets with known owners. */
  remember(sockets: readonly TrackedSocket[]): void {
    for (const socket of sockets) {
      const [pid] = this.#owners.of(socket.inode);
      if (pid === undefined || socket.role !== "client") continue;
      if (this.#callers.size >= maxCallers) this.#callers.clear();
      this.#callers.set(endpointOf(socket), pid);
    }
  }

  /** Pids, possibly repeated. `given`: processes that need no further system call. */
  *#candidates(sockets: readonly TrackedSocket[], changes: ProcessChanges, given: ReadonlySet<number>): Generator<number> {
    for (const socket of sockets) {
      if (socket.role === "server") yield* this.#servers(socket);
      else yield* this.#callersOf(socket);
    }
    for (const { pid } of changes.added) yield pid;
    for (const entry of this.#table.values())
      if (!given.has(entry.pid) && this.#isHolder(entry) && this.#owners.hasChanged(entry)) yield entry.pid;
  }

  /** The listener's owner, and its children, to which accepted connections are passed. */
  *#servers(socket: TrackedSocket): Generator<number> {
    for (const listener of this.#tracker.index.match(localEndOf(socket))) {
      for (const pid of this.#owners.of(listener.inode)) {
        yield pid;
        for (const child of this.#table.childrenOf(pid)) yield child.pid;
      }
    }
  }

  *#callersOf(socket: TrackedSocket): Generator<number> {
    const pid = this.#callers.get(endpointOf(socket));
    if (pid !== undefined) yield pid;
  }

  #isHolder({ pid }: ProcessEntry): boolean {
    for (const _ of this.#owners.socketsOf(pid)) return true;
    return false;
  }
}

function endpointOf(socket: TrackedSocket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`;
}
