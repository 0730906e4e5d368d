/** Decides where to look for the owners of sockets that have none yet, so that a scan in which little changed reads few descriptors. */

import { createLateWorkers, isSameProgram } from "./late-workers.ts";
import type { Pacer } from "./pacer.ts";
import type { ProcessChanges, ProcessEntry, ProcessTable } from "./process-table.ts";
import type { SocketOwners } from "./socket-owners.ts";
import type { SocketTracker } from "./socket-tracker.ts";
import { localEndOf, type TrackedSocket } from "./tracked-socket.ts";

export interface OwnerSearch {
  /** Finds owners for what has none, as far as is worth it now. */
  run(changes: ProcessChanges, pacer: Pacer): Promise<void>;
}

/** Endpoints whose last caller is remembered. */
const maxCallers = 20_000;
/** All processes are looked into for the sake of a connection at most this often; a listener is always worth it. */
const scansBetweenSweeps = 4;
const maxBackoff = 6;
/** Descriptors of likely owners that are read to the end when something new was not found where sockets usually stand. */
const likelyDescriptors = 3_000;
/** Descriptors read per scan for the sake of listeners that nobody seems to hold. */
const exploredPerScan = 250;

export function createOwnerSearch(table: ProcessTable, owners: SocketOwners, tracker: SocketTracker): OwnerSearch {
  /** Who called an address and port last: likely to be the one who calls it again. */
  const callers = new Map<string, number>();
  let lastSweep = Number.NEGATIVE_INFINITY;
  let hasLostListener = false;

  const isAlive = (inode: number): boolean => tracker.connections.has(inode) || tracker.listeners.has(inode);
  const workers = createLateWorkers({ table, owners, isListener: (inode) => tracker.listeners.has(inode), isAlive });
  const endpointOf = (socket: TrackedSocket): string => `${socket.remoteAddress} ${socket.remotePort}`;

  const ownerless = (): TrackedSocket[] => {
    const found: TrackedSocket[] = [];
    for (const sockets of [tracker.listeners, tracker.connections]) {
      for (const socket of sockets.values()) {
        if (socket.nextSearchScan > table.scan) continue;
        if (owners.of(socket.inode).length === 0) found.push(socket);
      }
    }
    return found;
  };

  /** Listeners' owners and their children, last callers, whoever started since: likely owners of what is new. */
  function* likely(sockets: readonly TrackedSocket[], changes: ProcessChanges): Generator<ProcessEntry> {
    const given = new Set<number>();
    const give = function* (pid: number | undefined): Generator<ProcessEntry> {
      const entry = pid === undefined || given.has(pid) ? undefined : table.get(pid);
      if (!entry) return;
      given.add(entry.pid);
      yield entry;
    };
    for (const socket of sockets) {
      if (socket.role !== "server") yield* give(callers.get(endpointOf(socket)));
      else {
        for (const listener of tracker.index.match(localEndOf(socket))) {
          for (const pid of owners.of(listener.inode)) {
            yield* give(pid);
            for (const child of table.childrenOf(pid)) yield* give(child.pid);
          }
        }
      }
    }
    for (const entry of changes.added) yield* give(entry.pid);
    for (const entry of table.values())
      if (!given.has(entry.pid) && isKnownHolder(entry) && owners.hasChanged(entry)) yield* give(entry.pid);
  }

  const isKnownHolder = (entry: ProcessEntry): boolean => {
    for (const _ of owners.socketsOf(entry.pid)) return true;
    return false;
  };

  function* everybody(sockets: readonly TrackedSocket[], changes: ProcessChanges): Generator<ProcessEntry> {
    const given = new Set<number>();
    for (const entry of likely(sockets, changes)) {
      given.add(entry.pid);
      yield entry;
    }
    for (const entry of table.values()) if (!given.has(entry.pid)) yield entry;
  }

  /** A socket that a parent opened before it forked stands under the same descriptor in its children. */
  const findFamily = (listener: TrackedSocket): void => {
    const queue = [...owners.of(listener.inode)];
    const asked = new Set(queue);
    for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
      const descriptor = descriptorOf(pid, listener.inode);
      const parent = table.get(table.get(pid)?.parentPid ?? 0);
      for (const relative of [...(parent ? [parent] : []), ...table.childrenOf(pid)]) {
        if (asked.has(relative.pid) || relative.pid === 1) continue;
        asked.add(relative.pid);
        if (descriptor !== undefined && owners.probe(relative, descriptor, listener.inode)) queue.push(relative.pid);
      }
    }
  };

  const descriptorOf = (pid: number, inode: number): number | undefined => {
    for (const [descriptor, held] of owners.socketsOf(pid)) if (held === inode) return descriptor;
    return undefined;
  };

  /** Children that started since and hold what their parent listens on; a worker that is handed its socket has it under another descriptor. */
  const adoptChildren = (added: readonly ProcessEntry[]): void => {
    for (const child of added) {
      const parent = table.get(child.parentPid);
      if (!parent || parent.pid === 1) continue;
      const shared = [...owners.socketsOf(parent.pid)].filter(([, inode]) => tracker.listeners.has(inode));
      const isFound = shared.map(([descriptor, inode]) => owners.probe(child, descriptor, inode)).some(Boolean);
      if (shared.length > 0 && !isFound && isSameProgram(child, parent)) workers.expect(child);
    }
  };

  const rememberCallers = (sockets: readonly TrackedSocket[]): void => {
    for (const socket of sockets) {
      const [pid] = owners.of(socket.inode);
      if (pid === undefined || socket.role !== "client") continue;
      if (callers.size >= maxCallers) callers.clear();
      callers.set(endpointOf(socket), pid);
    }
  };

  const run = async (changes: ProcessChanges, pacer: Pacer): Promise<void> => {
    await search(changes, pacer);
    workers.look();
  };

  const search = async (changes: ProcessChanges, pacer: Pacer): Promise<void> => {
    owners.beginScan();
    for (const process of changes.removed) owners.forgetProcess(process.pid);
    const isFirst = table.scan === 1;
    if (!isFirst) adoptChildren(changes.added);
    const sockets = ownerless();
    if (hasLostListener && !isFirst) owners.explore(table.values(), isAlive, exploredPerScan);
    if (sockets.length === 0) return;
    const wanted = new Set(sockets.map((socket) => socket.inode));
    const isWorthASweep =
      isFirst ||
      sockets.some((socket) => socket.role === null) ||
      (sockets.some((socket) => socket.searches > 0) && table.scan - lastSweep >= scansBetweenSweeps);
    if (isWorthASweep) lastSweep = table.scan;
    const processes = isWorthASweep ? everybody(sockets, changes) : likely(sockets, changes);
    // Processes that may not be looked into explain as many lost listeners.
    const isWorthTheRest = (unfound: number): boolean => (isWorthASweep ? unfound > owners.denied : owners.looked < likelyDescriptors);
    await owners.find({ wanted, processes, isSweep: isWorthASweep, isAlive, isWorthTheRest }, pacer);
    for (const socket of sockets) {
      if (!wanted.has(socket.inode)) {
        if (socket.role === null) {
          findFamily(socket);
          workers.expectFamily(socket.inode);
        }
        continue;
      }
      // After a sweep there is nowhere else to look for a while.
      const pause = isWorthASweep ? scansBetweenSweeps * 2 ** Math.min(maxBackoff, socket.searches) : 1;
      socket.searches++;
      socket.nextSearchScan = table.scan + pause;
    }
    hasLostListener = sockets.some((socket) => socket.role === null && wanted.has(socket.inode)) || (hasLostListener && !isFirst);
    rememberCallers(sockets);
  };
  return { run };
}
