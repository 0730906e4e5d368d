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

/** Workers are numbered, and two of them run at once; see vitest.config.ts. */
const portsOfWorker = 2_500;
const part = (Number(process.env["VITEST_POOL_ID"] ?? 0) % 4) * portsOfWorker;
let given = 0;

/**
 * One that was free a moment ago, another with each call. The kernel does not give it out by itself, and no other worker of these tests has ports of
 * the same part, so it stays free until it is taken, and also between a daemon's end and its next start.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    const port = 20_000 + part + ((process.pid * 31 + given++ * 101) % portsOfWorker);
    try {
      await using held = await HeldPort.take(port);
      return held.port;
    } catch (error) {
      // Taken by somebody: the next one.
      if (attempt > 100) throw error;
    }
  }
}
