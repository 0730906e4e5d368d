/** Current TCP listeners, for one-off queries; the agent's discovery uses a scanner instead. */

import { noExtraRules } from "../../redact/index.ts";
import type { HostRoot } from "../files/host-root.ts";
import { type NamedBy, nameInstance } from "../naming/service-name.ts";
import { createDiscoveryScanner, type DiscoveryScan } from "./discovery-scanner.ts";
import type { TrackedSocket } from "./tracked-socket.ts";

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

const maxListeners = 4096;

function listenerOf(scan: DiscoveryScan, socket: TrackedSocket, pid: number | null): Listener {
  const facts = pid === null ? null : scan.factsOf(pid);
  const { name: service, namedBy } = nameInstance({ process: facts?.name ?? null, port: socket.localPort });
  return {
    service,
    namedBy,
    address: socket.localAddress,
    port: socket.localPort,
    networkNamespace: socket.networkNamespace === 0 ? null : socket.networkNamespace,
    pid,
    startTicks: pid === null ? null : (scan.processOf(pid)?.startTicks ?? null),
    exe: facts?.exe ?? null,
    userId: socket.userId,
    cgroup: facts?.cgroup ?? null,
    containerId: facts?.containerId ?? null,
  };
}

export async function scanListeners(root: HostRoot, signal?: AbortSignal): Promise<ListenerScan> {
  const rules = { patterns: [], redaction: noExtraRules, kubernetesLabel: "app" };
  const scan = await createDiscoveryScanner(root).scan({ protocols: ["tcp"], connections: false, rules }, signal);
  const listeners = new Map<string, Listener>();
  let { cut } = scan.limits;
  for (const socket of scan.listeners.values()) {
    const pids = scan.ownersOf(socket);
    for (const pid of pids.length > 0 ? pids : [null]) {
      const key = `${socket.networkNamespace} ${pid} ${socket.localAddress} ${socket.localPort}`;
      if (listeners.has(key)) continue;
      if (listeners.size < maxListeners) listeners.set(key, listenerOf(scan, socket, pid));
      else cut++;
    }
  }
  const { deniedProcesses, listenersWithoutProcess: withoutProcess } = scan.limits;
  return { listeners: [...listeners.values()], deniedProcesses, withoutProcess, cut };
}
