/** Connections that have not finished their handshake. Each has a deadline, and their number is bounded. */

import type { Socket } from "node:net";

export interface PendingConnectionsOptions {
  /** Above it the oldest is dropped: a flood of half-open connections must not lock out real clients, whose handshakes take milliseconds. */
  max: number;
  timeoutMs: number;
  onDropped: (reason: "timeout" | "limit") => void;
}

interface Entry {
  socket: Socket;
  timer: NodeJS.Timeout;
}

/** From accept to the end of the handshake. `settle` ends the deadline. */
export class PendingConnections {
  readonly #options: PendingConnectionsOptions;
  /** By the peer's address and port: a TLSSocket is another object than the socket below it, but has the same peer. */
  readonly #open = new Map<string, Entry>();

  constructor(options: PendingConnectionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Starts the deadline. Above the limit, the oldest pending connection is closed. */
  add(socket: Socket): void {
    const key = peerOf(socket);
    if (this.#open.size >= this.#options.max) this.#dropOldest();
    const timer = setTimeout(() => this.#drop(key, "timeout"), this.#options.timeoutMs);
    this.#open.set(key, { socket, timer });
    socket.once("close", () => {
      // The same peer may have connected again.
      if (this.#open.get(key)?.socket === socket) this.#forget(key);
    });
  }

  /** Call when the handshake is done. */
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
