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

/** One that was free a moment ago. */
export async function freePort(): Promise<number> {
  await using held = await HeldPort.take();
  return held.port;
}

/** A free one that the kernel does not give out by itself, as a service that is there to stay would use. */
export async function lastingPort(): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    const port = 20_000 + ((process.pid * 31 + attempt * 101) % 10_000);
    try {
      await using held = await HeldPort.take(port);
      return held.port;
    } catch (error) {
      // Taken by somebody: the next one.
      if (attempt > 100) throw error;
    }
  }
}
