/** All sockets of the host from scan to scan: what is new, what has ended, who listens and which end of a connection called. */

import { isLoopback } from "../base/ip-address.ts";
import { createListenerIndex, type ListenerIndex } from "./listener-index.ts";
import { type SocketProtocol, type SocketView, socketStates } from "./socket-source.ts";
import { type TrackedSocket, trackSocket, updateSocket } from "./tracked-socket.ts";

/** Connections above the limit, counted by their ends instead of kept one by one. */
export interface FoldedConnections {
  networkNamespace: number;
  protocol: SocketProtocol;
  role: "client" | "server";
  localAddress: string;
  /** 0 for the client's end. */
  localPort: number;
  remoteAddress: string;
  /** 0 for the client's end. */
  remotePort: number;
  connections: number;
  bytesSent: number;
  bytesReceived: number;
}

export interface SocketChanges {
  /** Connections first seen, role set. */
  opened: TrackedSocket[];
  /** Connections and attempts that are gone. */
  closed: TrackedSocket[];
  folded: FoldedConnections[];
  /** Connections for which not even a folded row was left. */
  cut: number;
}

export interface SocketTrackerOptions {
  /** Connections kept one by one; default 50,000. */
  maxConnections?: number;
  /** Listeners; default 8192. */
  maxListeners?: number;
}

export interface SocketTracker {
  readonly listeners: ReadonlyMap<number, TrackedSocket>;
  readonly connections: ReadonlyMap<number, TrackedSocket>;
  readonly index: ListenerIndex;
  /** Listeners that were left out because there are too many. */
  readonly cutListeners: number;
  beginScan(scan: number): void;
  see(view: SocketView, protocol: SocketProtocol, networkNamespace: number): void;
  /** A namespace that could not be read this time: its sockets are taken to be as they were. */
  keep(networkNamespace: number): void;
  /** What was not seen has ended. `forget` is called for each. */
  endScan(forget: (socket: TrackedSocket) => void): SocketChanges;
}

const maxFolded = 5_000;

function isListening(view: SocketView, protocol: SocketProtocol): boolean {
  // UDP does not listen: an unconnected socket takes from anybody.
  return protocol === "tcp" ? view.state === socketStates.listen : view.remotePort === 0;
}

export function createSocketTracker(options: SocketTrackerOptions = {}): SocketTracker {
  const { maxConnections = 50_000, maxListeners = 8_192 } = options;
  const listeners = new Map<number, TrackedSocket>();
  const connections = new Map<number, TrackedSocket>();
  const index = createListenerIndex();
  let scan = 0;
  let fresh: TrackedSocket[] = [];
  let beyond: TrackedSocket[] = [];
  let cut = 0;
  let cutListeners = 0;

  const see = (view: SocketView, protocol: SocketProtocol, networkNamespace: number): void => {
    // Without an inode no process holds it: waiting to be accepted, or closed already.
    if (view.inode === 0) return;
    const isListener = isListening(view, protocol);
    const table = isListener ? listeners : connections;
    const known = table.get(view.inode);
    if (known && updateSocket(known, view, scan)) return;
    const socket = trackSocket(view, protocol, networkNamespace, scan);
    if (isListener) {
      if (listeners.size >= maxListeners) cutListeners++;
      else {
        if (known) index.retire(known);
        listeners.set(view.inode, socket);
        index.add(socket);
      }
    } else if (connections.size < maxConnections) {
      connections.set(view.inode, socket);
      fresh.push(socket);
    } else if (beyond.length < maxConnections) beyond.push(socket);
    else cut++;
  };

  /** A listener that came with this scan counts too, so roles are given when all tables were read. */
  const setRole = (socket: TrackedSocket): void => {
    const { networkNamespace, protocol, localAddress, localPort: port, remoteAddress } = socket;
    const local = { networkNamespace, protocol, address: localAddress, port };
    if (index.match(local).length > 0) {
      socket.role = "server";
      return;
    }
    const isOnHost = isLoopback(remoteAddress) || remoteAddress === localAddress;
    const listensNow = (): boolean =>
      index.match({ networkNamespace, protocol, address: remoteAddress, port: socket.remotePort }).length > 0;
    // A port that was listened on once may be given to a caller later: then it is the other end that listens now.
    socket.role = index.wasListening(local) && !(isOnHost && listensNow()) ? "server" : "client";
  };

  const fold = (): FoldedConnections[] => {
    const rows = new Map<string, FoldedConnections>();
    for (const socket of beyond) {
      setRole(socket);
      const isServer = socket.role === "server";
      const key = `${socket.networkNamespace} ${socket.protocol} ${socket.role} ${socket.localAddress} ${isServer ? socket.localPort : 0} ${socket.remoteAddress} ${isServer ? 0 : socket.remotePort}`;
      let row = rows.get(key);
      if (!row) {
        if (rows.size >= maxFolded) {
          cut++;
          continue;
        }
        const { networkNamespace, protocol, localAddress, remoteAddress } = socket;
        const ports = { localPort: isServer ? socket.localPort : 0, remotePort: isServer ? 0 : socket.remotePort };
        row = {
          networkNamespace,
          protocol,
          role: isServer ? "server" : "client",
          localAddress,
          remoteAddress,
          ...ports,
          connections: 0,
          bytesSent: 0,
          bytesReceived: 0,
        };
        rows.set(key, row);
      }
      row.connections++;
      row.bytesSent += socket.bytesSent ?? 0;
      row.bytesReceived += socket.bytesReceived ?? 0;
    }
    return [...rows.values()];
  };

  const endScan = (forget: (socket: TrackedSocket) => void): SocketChanges => {
    for (const socket of fresh) setRole(socket);
    const folded = fold();
    const closed: TrackedSocket[] = [];
    for (const [inode, socket] of connections) {
      if (socket.lastScan === scan) continue;
      connections.delete(inode);
      forget(socket);
      closed.push(socket);
    }
    for (const [inode, socket] of listeners) {
      if (socket.lastScan === scan) continue;
      listeners.delete(inode);
      index.retire(socket);
      forget(socket);
    }
    return { opened: fresh, closed, folded, cut };
  };

  return {
    listeners,
    connections,
    index,
    get cutListeners() {
      return cutListeners;
    },
    beginScan: (number) => {
      scan = number;
      fresh = [];
      beyond = [];
      cut = 0;
      cutListeners = 0;
    },
    see,
    keep: (networkNamespace) => {
      for (const table of [listeners, connections])
        for (const socket of table.values()) if (socket.networkNamespace === networkNamespace) socket.lastScan = scan;
    },
    endScan,
  };
}
