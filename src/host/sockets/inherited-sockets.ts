/** Listeners held by several processes: a socket opened before a fork has the same descriptor in the child. */

import type { ProcessEntry, ProcessTable } from "../processes/process-table.ts";
import type { SocketOwners } from "./socket-owners.ts";

/** Checks parents and children of the listener's known owners, recursively, for the same socket. */
export function findFamily(inode: number, table: ProcessTable, owners: SocketOwners): void {
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
