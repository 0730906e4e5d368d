import { connect, createServer, type Server, type Socket } from "node:net";

interface ProxyState {
  isCut: boolean;
  /** In each direction. */
  bytesPerSecond: number;
  /** Work for the end of the partition. */
  waiting: (() => void)[];
  attempts: number;
}

/** A proxy between two daemons that can simulate a slow link, and a partition: connections stay open, nothing arrives, new connections get no reply. */
export class TcpProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;
  readonly #state: ProxyState;

  private constructor(server: Server, port: number, sockets: Set<Socket>, state: ProxyState) {
    this.#server = server;
    this.port = port;
    this.#sockets = sockets;
    this.#state = state;
  }

  static async start(targetPort: number): Promise<TcpProxy> {
    const sockets = new Set<Socket>();
    const state: ProxyState = { isCut: false, bytesPerSecond: Number.POSITIVE_INFINITY, waiting: [], attempts: 0 };
    const keep = (socket: Socket): void => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      // Either end may disconnect at any time; destroy below closes the other one.
      socket.on("error", () => undefined);
    };
    const forward = (client: Socket): void => {
      const target = connect(targetPort, "127.0.0.1");
      keep(target);
      for (const [from, to] of [
        [client, target],
        [target, client],
      ] as const) {
        from.on("data", (bytes) => {
          to.write(bytes);
          slowDown(from, (bytes.length / state.bytesPerSecond) * 1_000, state);
        });
        // During a partition, closes do not pass either.
        from.once("close", () => (state.isCut ? state.waiting.push(() => to.destroy()) : to.destroy()));
        if (state.isCut) from.pause();
      }
    };
    const server = createServer({ pauseOnConnect: true }, (client) => {
      keep(client);
      const open = (): void => {
        if (client.destroyed) return;
        forward(client);
        client.resume();
      };
      if (state.isCut) {
        state.attempts++;
        state.waiting.push(open);
      } else open();
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    return new TcpProxy(server, (server.address() as { port: number }).port, sockets, state);
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** New connections since the last cut, none of which got a reply. */
  get attempts(): number {
    return this.#state.attempts;
  }

  /** Infinity: no limit. */
  limit(bytesPerSecond: number): void {
    this.#state.bytesPerSecond = bytesPerSecond;
  }

  cut(): void {
    this.#state.attempts = 0;
    this.#state.isCut = true;
    for (const socket of this.#sockets) socket.pause();
  }

  heal(): void {
    this.#state.isCut = false;
    for (const socket of this.#sockets) socket.resume();
    for (const act of this.#state.waiting.splice(0)) act();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }
}

/** Pauses reading for the time that the link needs for the last chunk. */
function slowDown(socket: Socket, pauseMs: number, state: ProxyState): void {
  if (pauseMs < 1) return;
  socket.pause();
  const timer = setTimeout(() => {
    if (!state.isCut) socket.resume();
  }, pauseMs);
  timer.unref();
}
