/** Open connections of one kind, with a bound. */

import type { Socket } from "node:net";

/** Does not enforce its bound: the caller checks `isFull` before it adds a connection. */
export class ConnectionSet {
  readonly #open = new Set<Socket>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#open.size;
  }

  get isFull(): boolean {
    return this.#open.size >= this.#max;
  }

  /** Until the socket closes. */
  add(socket: Socket): void {
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
  }

  /** Removes the connection from the count. */
  drop(socket: Socket): void {
    this.#open.delete(socket);
    socket.destroy();
  }

  destroyAll(): void {
    for (const socket of this.#open) socket.destroy();
  }
}
