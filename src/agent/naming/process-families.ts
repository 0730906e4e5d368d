/** Groups the processes of one scan into services: a worker belongs to the program that started it. */

import { remembered } from "../../base/remembered.ts";
import type { DiscoveryScan, ProcessFacts, TrackedSocket } from "../../host/index.ts";
import { servingOwners } from "./listener-owners.ts";

/** Process managers: their children are separate services, even with the same interpreter. */
const managers = /^(?:pm2|supervisord?|foreman|honcho|overmind|npm|yarn|pnpm|concurrently|systemd|init|tini|dumb-init|s6-.*)$/i;
/** Bounds the walk from a worker to the head of its family. */
const maxAncestors = 8;

/** Valid for one scan. */
export class ProcessFamilies {
  readonly #scan: DiscoveryScan;
  readonly #listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>;
  /** Built on first use: it iterates over all connections. */
  #acceptedFrom: ReadonlyMap<number, ReadonlySet<number>> | undefined;

  /** `listening`: the listeners of each process. */
  constructor(scan: DiscoveryScan, listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>) {
    this.#scan = scan;
    this.#listening = listening;
  }

  /** The topmost process of a worker's family; the process itself when it is not a worker. */
  headOf(facts: ProcessFacts): ProcessFacts {
    let head = facts;
    for (let depth = 0; depth < maxAncestors; depth++) {
      const parent = this.#scan.factsOf(head.entry.parentPid);
      if (!parent || parent.entry.pid === 1 || !this.#isWorkerOf(head, parent)) break;
      head = parent;
    }
    return head;
  }

  #isWorkerOf(child: ProcessFacts, parent: ProcessFacts): boolean {
    if (!isSameProgram(child, parent) || child.containerId !== parent.containerId) return false;
    if (parent.name === null || managers.test(parent.name.name)) return false;
    return child.script === parent.script || this.#sharesPort(child.entry.pid, parent.entry.pid);
  }

  /** A child with another script still serves its parent's port when it holds the socket or connections accepted on it. */
  #sharesPort(childPid: number, parentPid: number): boolean {
    const ports = this.#listening.get(parentPid);
    if (!ports) return false;
    for (const socket of this.#listening.get(childPid) ?? []) if (ports.has(socket)) return true;
    this.#acceptedFrom ??= acceptedFrom(this.#scan);
    return this.#acceptedFrom.get(childPid)?.has(parentPid) ?? false;
  }
}

/** The same file, or another file of one well-known program: `sshd` and `sshd-session`. */
function isSameProgram(child: ProcessFacts, parent: ProcessFacts): boolean {
  const { infrastructure } = child.origin;
  if (infrastructure !== null && infrastructure === parent.origin.infrastructure) return true;
  return child.exe !== null && child.exe === parent.exe;
}

/** For each process with accepted connections: the owners of the listeners that accepted them. */
function acceptedFrom(scan: DiscoveryScan): Map<number, Set<number>> {
  const owners = new Map<number, Set<number>>();
  for (const connection of scan.connections.values()) {
    if (connection.role !== "server") continue;
    for (const pid of scan.ownersOf(connection)) {
      const from = remembered(owners, pid, () => new Set());
      for (const listener of scan.listenersOf(connection)) for (const owner of servingOwners(scan, listener)) from.add(owner);
    }
  }
  return owners;
}
