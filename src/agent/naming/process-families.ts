/** Which processes are one service: workers belong to the program that started them. Of one scan. */

import { remembered } from "../../base/remembered.ts";
import type { DiscoveryScan, ProcessFacts, TrackedSocket } from "../../host/index.ts";
import { servingOwners } from "./listener-owners.ts";

/** Process managers: their children are services of their own, though they run in the same interpreter. */
const managers = /^(?:pm2|supervisord?|foreman|honcho|overmind|npm|yarn|pnpm|concurrently|systemd|init|tini|dumb-init|s6-.*)$/i;
const maxAncestors = 8;

export class ProcessFamilies {
  readonly #scan: DiscoveryScan;
  readonly #listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>;
  /** Made when it is first needed: it takes a walk over all connections. */
  #acceptedFrom: ReadonlyMap<number, ReadonlySet<number>> | undefined;

  /** `listening`: what each process listens on. */
  constructor(scan: DiscoveryScan, listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>) {
    this.#scan = scan;
    this.#listening = listening;
  }

  /** The process that started a worker, through workers of its own; the process itself when it is none. */
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
    if (child.exe === null || child.exe !== parent.exe || child.containerId !== parent.containerId) return false;
    if (parent.name === null || managers.test(parent.name.service)) return false;
    return child.script === parent.script || this.#sharesPort(child.entry.pid, parent.entry.pid);
  }

  /** A child that runs another script still serves its parent's port when it holds the socket, or connections that came in through it. */
  #sharesPort(childPid: number, parentPid: number): boolean {
    const ports = this.#listening.get(parentPid);
    if (!ports) return false;
    for (const socket of this.#listening.get(childPid) ?? []) if (ports.has(socket)) return true;
    this.#acceptedFrom ??= acceptedFrom(this.#scan);
    return this.#acceptedFrom.get(childPid)?.has(parentPid) ?? false;
  }
}

/** For each process that holds accepted connections: whose listeners they came in through. */
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
