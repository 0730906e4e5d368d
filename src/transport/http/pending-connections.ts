/** Connections whose handshake is not done yet: each has a deadline, and there is a bound on how many wait. */

import type { Socket } from "node:net";

export interface PendingConnectionsOptions {
  /** Past it the oldest is dropped: a flood of half-open connections must not lock out the honest ones, which need milliseconds. */
  max: number;
  timeoutMs: number;
  onDropped: (reason: "timeout" | "limit") => void;
}

interface Entry {
  socket: Socket;
  timer: NodeJS.Timeout;
}

export class PendingConnections {
  readonly #options: PendingConnectionsOptions;
  /** By the peer's address and port: a TLSSocket is another object than the socket it was made of, but has the same peer. */
  readonly #open = new Map<string, Entry>();

  constructor(options: PendingConnectionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  add(socket: Socket): void {
    const key = peerOf(socket);
    if (this.#open.size >= this.#options.max) this.#dropOldest();
    const timer = setTimeout(() => this.#drop(key, "timeout"), this.#options.timeoutMs);
    this.#open.set(key, { socket, timer });
    socket.once("close", () => {
      // The same peer may have come again by now.
      if (this.#open.get(key)?.socket === socket) this.#forget(key);
    });
  }

  /** The handshake is done. */
  settle(socket: Socket): void {
    this.#forget(peerOf(socket));
  }

  destroyAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  #dropOldest(): void {
    const [key] = this.#open.keys();
    if (key !== undefined) this.#drop(key, "limit");
  }

  #drop(key: string, reason: "timeout" | "limit"): void {
    this.#open.get(key)?.socket.destroy();
    this.#forget(key);
    this.#options.onDropped(reason);
  }

  #forget(key: string): void {
    clearTimeout(this.#open.get(key)?.timer);
    this.#open.delete(key);
  }
}

function peerOf(socket: Socket): string {
  return `${socket.remoteAddress ?? ""} ${socket.remotePort ?? ""}`;
}
