import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/** Holds a port until it is disposed of; `port: 0` takes any. */
export class HeldPort implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
  }

  static async take(port = 0, host = "127.0.0.1"): Promise<HeldPort> {
    const server = createServer((socket) => socket.destroy());
    server.listen({ port, host, exclusive: true });
    await once(server, "listening");
    return new HeldPort(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await once(this.#server, "close");
  }
}

let given = 0;

/**
 * One that was free a moment ago, another with each call. The kernel does not give it out by itself, so it stays free until it is taken, and
 * services that use it are there to stay.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    const port = 20_000 + ((process.pid * 31 + given++ * 101) % 10_000);
    try {
      await using held = await HeldPort.take(port);
      return held.port;
    } catch (error) {
      // Taken by somebody: the next one.
      if (attempt > 100) throw error;
    }
  }
}
