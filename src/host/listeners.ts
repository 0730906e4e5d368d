/** Who listens on TCP, in every network namespace that the agent can see, and what to call it. */

import { createReadTally, type HostRoot, type ReadTally } from "./host-root.ts";
import type { Pacer } from "./pacer.ts";
import { processCgroup } from "./process-cgroup.ts";
import { parseProcessStat } from "./process-stat.ts";
import { listProcessIds, readExecutable } from "./processes.ts";
import { type NamedBy, nameService } from "./service-name.ts";
import { findSocketOwners } from "./socket-owners.ts";
import { type ListenSocket, readListenSockets } from "./tcp-table.ts";

export interface Listener {
  service: string;
  namedBy: NamedBy;
  address: string;
  port: number;
  /** Inode of the network namespace; null for the agent's own when it may not be read. */
  networkNamespace: number | null;
  /** Null when the owner's descriptors may not be read. */
  pid: number | null;
  startTicks: number | null;
  exe: string | null;
  userId: number;
  cgroup: string | null;
  /** Short id of the container that the process runs in. */
  containerId: string | null;
}

export interface ListenerScan {
  /** One per listening process, address and port. */
  listeners: Listener[];
  /** Processes whose descriptors or namespaces could not be read: their listeners have no pid, or are missing if in another namespace. */
  deniedProcesses: number;
  /** Listeners without a known process. */
  withoutProcess: number;
  /** Sockets, namespaces or descriptors above a limit. */
  cut: number;
}

const maxSockets = 4096;
const maxNamespaces = 1024;
const maxListeners = 4096;
const maxCommandBytes = 128 * 1024;

interface Owner {
  startTicks: number | null;
  exe: string | null;
  cgroup: string | null;
  arguments: string[];
  workingDirectory: string | null;
  processName: string | null;
}

/** Processes by network namespace; the agent's own comes first, under `viewpoint`. */
async function findNamespaces(
  root: HostRoot,
  processIds: readonly number[],
  tally: ReadTally,
  pacer: Pacer,
): Promise<Map<string, string[]>> {
  const own = root.readLink(`${root.viewpoint}/ns/net`) ?? "own";
  const namespaces = new Map<string, string[]>([[own, [root.viewpoint]]]);
  for (const pid of processIds) {
    if (pacer.due()) await pacer.rest();
    const id = root.readLink(`/proc/${pid}/ns/net`, tally);
    if (id === null || id === own) continue;
    const members = namespaces.get(id);
    if (!members) namespaces.set(id, [`/proc/${pid}`]);
    // A few to fall back on when the first has ended by the time its table is read.
    else if (members.length < 4) members.push(`/proc/${pid}`);
  }
  return namespaces;
}

interface NamespaceSocket extends ListenSocket {
  networkNamespace: number | null;
}

function readNamespace(root: HostRoot, id: string, members: readonly string[], tally: ReadTally): NamespaceSocket[] {
  const networkNamespace = /^net:\[(\d+)\]$/.exec(id)?.[1];
  for (const member of members) {
    const sockets: ListenSocket[] = [];
    const hasIpv4 = readListenSockets(root, `${member}/net/tcp`, maxSockets, tally, sockets);
    // Absent when IPv6 is switched off.
    const hasIpv6 = readListenSockets(root, `${member}/net/tcp6`, maxSockets, tally, sockets);
    if (hasIpv4 || hasIpv6)
      return sockets.map((socket) => ({ ...socket, networkNamespace: networkNamespace === undefined ? null : Number(networkNamespace) }));
  }
  return [];
}

/** The command line is looked at here to find a name, and goes no further: it may hold secrets. */
function readOwner(root: HostRoot, pid: number): Owner {
  const stat = parseProcessStat(root.readText(`/proc/${pid}/stat`) ?? "");
  return {
    startTicks: stat?.startTicks ?? null,
    processName: stat?.name ?? null,
    exe: readExecutable(root, pid),
    cgroup: processCgroup(root.readText(`/proc/${pid}/cgroup`) ?? ""),
    arguments: (root.readText(`/proc/${pid}/cmdline`, undefined, maxCommandBytes) ?? "").replace(/\0+$/, "").split("\0"),
    workingDirectory: root.readLink(`/proc/${pid}/cwd`),
  };
}

function listenerOf(socket: NamespaceSocket, pid: number | null, owner: Owner | null): Listener {
  const name = nameService({
    port: socket.port,
    cgroup: owner?.cgroup ?? null,
    exe: owner?.exe ?? null,
    processName: owner?.processName ?? null,
    arguments: owner?.arguments ?? [],
    workingDirectory: owner?.workingDirectory ?? null,
  });
  return {
    service: name.service,
    namedBy: name.namedBy,
    address: socket.address,
    port: socket.port,
    networkNamespace: socket.networkNamespace,
    pid,
    startTicks: owner?.startTicks ?? null,
    exe: owner?.exe ?? null,
    userId: socket.userId,
    cgroup: owner?.cgroup ?? null,
    containerId: name.containerId,
  };
}

export async function scanListeners(root: HostRoot, pacer: Pacer): Promise<ListenerScan> {
  const tally = createReadTally();
  const processIds = listProcessIds(root);
  const namespaces = await findNamespaces(root, processIds, tally, pacer);
  const sockets: NamespaceSocket[] = [];
  let cut = Math.max(0, namespaces.size - maxNamespaces);
  for (const [id, members] of [...namespaces].slice(0, maxNamespaces)) {
    if (pacer.due()) await pacer.rest();
    sockets.push(...readNamespace(root, id, members, tally));
  }
  const inodes = new Set(sockets.map((socket) => socket.inode));
  const owners = await findSocketOwners(root, processIds, inodes, pacer);
  cut += tally.truncated + owners.cut;

  const known = new Map<number, Owner>();
  const listeners = new Map<string, Listener>();
  let withoutProcess = 0;
  for (const socket of sockets) {
    const pids = owners.byInode.get(socket.inode);
    if (!pids) withoutProcess++;
    for (const pid of pids ?? [null]) {
      if (pacer.due()) await pacer.rest();
      let owner = pid === null ? null : (known.get(pid) ?? null);
      if (pid !== null && !owner) {
        owner = readOwner(root, pid);
        known.set(pid, owner);
      }
      const key = `${socket.networkNamespace} ${pid} ${socket.address} ${socket.port}`;
      if (listeners.has(key)) continue;
      if (listeners.size < maxListeners) listeners.set(key, listenerOf(socket, pid, owner));
      else cut++;
    }
  }
  return { listeners: [...listeners.values()], deniedProcesses: Math.max(tally.denied, owners.deniedProcesses), withoutProcess, cut };
}
