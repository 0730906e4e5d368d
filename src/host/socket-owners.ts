/** Which processes hold which sockets: the only way to learn it without netlink is to look at every descriptor. */

import { createReadTally, type HostRoot, type ReadTally } from "./host-root.ts";
import type { Pacer } from "./pacer.ts";

export interface SocketOwners {
  /** Pids by socket inode, ascending; several when a socket was inherited (prefork servers). */
  byInode: Map<number, number[]>;
  /** Processes whose descriptors could not be listed. */
  deniedProcesses: number;
  /** Descriptors that were not looked at because of the limits. */
  cutDescriptors: number;
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

/** Only the given inodes are kept. */
export async function findSocketOwners(
  root: HostRoot,
  processIds: readonly number[],
  wanted: ReadonlySet<number>,
  pacer: Pacer,
  limits: SocketOwnerLimits = {},
): Promise<SocketOwners> {
  const { perProcess = 4096, total = 100_000 } = limits;
  const owners: SocketOwners = { byInode: new Map(), deniedProcesses: 0, cutDescriptors: 0 };
  if (wanted.size === 0) return owners;
  const tally: ReadTally = createReadTally();
  let left = total;
  for (const pid of processIds) {
    const directory = `/proc/${pid}/fd`;
    const descriptors = root.list(directory, tally);
    if (!descriptors) continue;
    const looked = Math.min(descriptors.length, perProcess, left);
    left -= looked;
    owners.cutDescriptors += descriptors.length - looked;
    for (const descriptor of descriptors.slice(0, looked)) {
      if (pacer.due()) await pacer.rest();
      const inode = inodeOf(root.readLink(`${directory}/${descriptor}`));
      if (inode === undefined || !wanted.has(inode)) continue;
      const pids = owners.byInode.get(inode);
      if (!pids) owners.byInode.set(inode, [pid]);
      // A process may hold one socket twice.
      else if (pids.at(-1) !== pid && pids.length < maxOwnersPerSocket) pids.push(pid);
    }
  }
  owners.deniedProcesses = tally.denied;
  return owners;
}
