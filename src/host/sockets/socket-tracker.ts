/** Tracks the host's sockets from scan to scan: opened, closed, listeners, and which end of a connection is the client. */

import { isLoopback } from "../../base/ip-address.ts";
import { type FoldedConnections, foldConnections } from "./folded-connections.ts";
import { createListenerIndex, type ListenerIndex } from "./listener-index.ts";
import { type SocketProtocol, type SocketView, socketStates } from "./socket-source.ts";
import { localEndOf, type TrackedSocket, trackSocket, updateSocket } from "./tracked-socket.ts";

export interface SocketChanges {
  /** Connections first seen, role set. */
  opened: TrackedSocket[];
  /** Connections and attempts that are gone. */
  closed: TrackedSocket[];
  folded: FoldedConnections[];
  /** Connections that did not fit into folded rows either. */
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
  /** Listeners above the limit. */
  readonly cutListeners: number;
  beginScan(scan: number): void;
  observe(view: SocketView, protocol: SocketProtocol, networkNamespace: number): void;
  /** A namespace could not be read this time: its sockets are assumed to be unchanged. */
  keep(networkNamespace: number): void;
  /** Closes sockets that were not seen; `forget` is called for each. */
  endScan(forget: (socket: TrackedSocket) => void): SocketChanges;
}

export function createSocketTracker(options: SocketTrackerOptions = {}): SocketTracker {
  return new Tracker(options);
}

class Tracker implements SocketTracker {
  readonly listeners = new Map<number, TrackedSocket>();
  readonly connections = new Map<number, TrackedSocket>();
  readonly index = createListenerIndex();
  readonly #maxConnections: number;
  readonly #maxListeners: number;
  #scan = 0;
  #opened: TrackedSocket[] = [];
  /** Above the limit, to be folded. */
  #beyond: TrackedSocket[] = [];
  #cut = 0;
  #cutListeners = 0;

  constructor({ maxConnections = 50_000, maxListeners = 8_192 }: SocketTrackerOptions) {
    this.#maxConnections = maxConnections;
    this.#maxListeners = maxListeners;
  }

  get cutListeners(): number {
    return this.#cutListeners;
  }

  beginScan(scan: number): void {
    this.#scan = scan;
    this.#opened = [];
    this.#beyond = [];
    this.#cut = 0;
    this.#cutListeners = 0;
  }

  observe(view: SocketView, protocol: SocketProtocol, networkNamespace: number): void {
    // Without an inode no process holds the socket: it waits for accept(2), or is closed already.
    if (view.inode === 0) return;
    const isListener = isListening(view, protocol);
    const known = (isListener ? this.listeners : this.connections).get(view.inode);
    if (known && updateSocket(known, view, this.#scan)) return;
    const socket = trackSocket(view, protocol, networkNamespace, this.#scan);
    if (isListener) this.#addListener(socket, known);
    else this.#addConnection(socket);
  }

  keep(networkNamespace: number): void {
    for (const table of [this.listeners, this.connections])
      for (const socket of table.values()) if (socket.networkNamespace === networkNamespace) socket.lastScan = this.#scan;
  }

  endScan(forget: (socket: TrackedSocket) => void): SocketChanges {
    // Listeners of this scan count too, so roles are assigned after all tables were read.
    for (const socket of [...this.#opened, ...this.#beyond]) socket.role = this.#roleOf(socket);
    const { folded, cut } = foldConnections(this.#beyond);
    const closed = this.#takeUnseen(this.connections);
    for (const socket of closed) forget(socket);
    for (const listener of this.#takeUnseen(this.listeners)) {
      this.index.retire(listener);
      forget(listener);
    }
    return { opened: this.#opened, closed, folded, cut: this.#cut + cut };
  }

  /** `before`: a former listener with the same inode. */
  #addListener(socket: TrackedSocket, before: TrackedSocket | undefined): void {
    if (this.listeners.size >= this.#maxListeners) {
      this.#cutListeners++;
      return;
    }
    if (before) this.index.retire(before);
    this.listeners.set(socket.inode, socket);
    this.index.add(socket);
  }

  #addConnection(socket: TrackedSocket): void {
    if (this.connections.size < this.#maxConnections) {
      this.connections.set(socket.inode, socket);
      this.#opened.push(socket);
    } else if (this.#beyond.length < this.#maxConnections) this.#beyond.push(socket);
    else this.#cut++;
  }

  #roleOf(socket: TrackedSocket): "client" | "server" {
    const local = localEndOf(socket);
    if (this.index.match(local).length > 0) return "server";
    if (!this.index.wasListening(local)) return "client";
    // A former listening port may become a client's ephemeral port: the end that listens now is the server.
    const { remoteAddress, remotePort } = socket;
    const isOnHost = isLoopback(remoteAddress) || remoteAddress === socket.localAddress;
    return isOnHost && this.index.match({ ...local, address: remoteAddress, port: remotePort }).length > 0 ? "client" : "server";
  }

  #takeUnseen(table: Map<number, TrackedSocket>): TrackedSocket[] {
    const unseen: TrackedSocket[] = [];
    for (const [inode, socket] of table) {
      if (socket.lastScan === this.#scan) continue;
      table.delete(inode);
      unseen.push(socket);
    }
    return unseen;
  }
}

function isListening(view: SocketView, protocol: SocketProtocol): boolean {
  // UDP has no listening state: an unconnected socket receives from any sender.
  return protocol === "tcp" ? view.state === socketStates.listen : view.remotePort === 0;
}
