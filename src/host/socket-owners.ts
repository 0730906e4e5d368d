/** Which processes hold which sockets: the only way to learn it without netlink is to look at every descriptor. */

import { createReadTally, type HostRoot } from "./host-root.ts";
import type { Pacer } from "./pacer.ts";

export interface SocketOwners {
  /** Pids by socket inode, ascending; several when a socket was inherited (prefork servers). */
  byInode: Map<number, number[]>;
  /** Processes whose descriptors could not be listed. */
  deniedProcesses: number;
  /** Descriptors and owners that were left out because of the limits. */
  cut: number;
}

export interface SocketOwnerLimits {
  /** Default 4096; listeners are opened early and have low numbers. */
  perProcess?: number;
  /** Default 100,000. */
  total?: number;
}

const maxOwnersPerSocket = 64;

function inodeOf(link: string | null): number | undefined {
  return link?.startsWith("socket:[") ? Number(link.slice(8, -1)) : undefined;
}

function addOwner(owners: SocketOwners, inode: number, pid: number): void {
  const pids = owners.byInode.get(inode);
  if (!pids) owners.byInode.set(inode, [pid]);
  // A process may hold one socket twice.
  else if (pids.at(-1) !== pid) {
    if (pids.length < maxOwnersPerSocket) pids.push(pid);
    else owners.cut++;
  }
}

/** Only the given inodes are kept. */
export async function findSocketOwners(
  root: HostRoot,
  processIds: readonly number[],
  wanted: ReadonlySet<number>,
  pacer: Pacer,
  limits: SocketOwnerLimits = {},
): Promise<SocketOwners> {
  const { perProcess = 4096, total = 100_000 } = limits;
  const owners: SocketOwners = { byInode: new Map(), deniedProcesses: 0, cut: 0 };
  if (wanted.size === 0) return owners;
  const tally = createReadTally();
  let left = total;
  for (const pid of processIds) {
    const directory = `/proc/${pid}/fd`;
    const descriptors = root.list(directory, tally);
    if (!descriptors) continue;
    const looked = Math.min(descriptors.length, perProcess, left);
    left -= looked;
    owners.cut += descriptors.length - looked;
    const deniedBefore = tally.denied;
    for (const descriptor of descriptors.slice(0, looked)) {
      if (pacer.due()) await pacer.rest();
      const inode = inodeOf(root.readLink(`${directory}/${descriptor}`, tally));
      // May be listed but not looked at: so are all others of this process, and each refusal costs more than a read.
      if (tally.denied > deniedBefore) break;
      if (inode !== undefined && wanted.has(inode)) addOwner(owners, inode, pid);
    }
  }
  owners.deniedProcesses = tally.denied;
  return owners;
}
