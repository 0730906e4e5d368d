import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/** Keeps a port in use until it is disposed; `port: 0` takes any free one. */
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

/** Each vitest worker has its own range of ports; see maxWorkers in vitest.config.ts. */
const portsOfWorker = 2_500;
const part = (Number(process.env["VITEST_POOL_ID"] ?? 0) % 4) * portsOfWorker;
let given = 0;

/**
 * Returns a free port, a different one with each call. It is outside the ephemeral range and in this worker's own range, so it stays free until the test
 * uses it, and while a daemon restarts.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    const port = 20_000 + part + ((process.pid * 31 + given++ * 101) % portsOfWorker);
    try {
      await using held = await HeldPort.take(port);
      return held.port;
    } catch (error) {
      // In use: try the next one.
      if (attempt > 100) throw error;
    }
  }
}
