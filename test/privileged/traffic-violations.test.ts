/** Two hundred protocol violations against real servers. Valid requests to the same servers are counted exactly. */

import { once } from "node:events";
import { Agent, createServer, get } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { type RunningServer, startPostgres, startRedis } from "../support/database-servers.ts";
import { type ViolatedProtocol, type Violation, violatedProtocols, violation } from "../support/protocol-violations.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { TlsPrograms } from "../support/tls-programs.ts";
import { TrafficWatch } from "../support/traffic-watch.ts";
import { waitFor } from "../support/wait-for.ts";

const violations = 200;
const mebibyte = 1024 ** 2;

async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

describe("protocol violations", () => {
  const closing: (() => void | PromiseLike<void>)[] = [];
  const ports = {} as Record<ViolatedProtocol | "echo" | "sink", number>;

  beforeAll(async () => {
    if (probesSkipReason("redis-server", "postgres", "nginx", "openssl") !== undefined) return;
    const keep = <T extends Server>(server: T): T => {
      closing.push(() => {
        server.close();
      });
      return server;
    };
    const http = keep(createServer((_request, response) => response.end("ok")));
    http.on("clientError", (_error, socket) => socket.destroy());
    const http2 = createHttp2Server((_request, response) => response.end("ok"));
    http2.on("sessionError", () => {}).on("error", () => {});
    closing.push(() => {
      http2.close();
    });
    const ignoreErrors = (socket: Socket): Socket => socket.on("error", () => {});
    ports.http = await listening(http);
    ports.http2 = await listening(http2);
    ports.echo = await listening(keep(createTcpServer((socket) => ignoreErrors(socket).pipe(socket))));
    ports.sink = await listening(keep(createTcpServer((socket) => ignoreErrors(socket).resume())));
    // No MySQL server is installed; an echo server violates the protocol most.
    ports.mysql = ports.echo;
    const databases: RunningServer[] = [await startRedis(), await startPostgres()];
    for (const database of databases) closing.push(() => database[Symbol.asyncDispose]());
    [ports.redis, ports.postgres] = databases.map(({ port }) => port) as [number, number];
    const programs = new TlsPrograms();
    closing.push(() => programs[Symbol.dispose]());
    ports.tls = (await programs.serve("nginx", ["-c", programs.path("nginx.conf"), "-e", programs.path("nginx.log")])).port;
  });

  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });

  beforeEach((context) => {
    const reason = probesSkipReason("redis-server", "postgres", "nginx", "openssl");
    context.skip(reason !== undefined, reason);
  });

  async function commit({ sends, end }: Violation, port: number, lingering: Socket[]): Promise<void> {
    const socket = connect(port, "127.0.0.1").setNoDelay();
    socket.on("error", () => {}).resume();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    await Promise.race([new Promise((resolve) => socket.once("connect", resolve)), closed]);
    for (const bytes of sends) {
      if (!socket.writable) break;
      socket.write(bytes);
      await sleep(5);
    }
    if (end === "linger") lingering.push(socket);
    else if (end === "reset") socket.resetAndDestroy();
    else {
      socket.end();
      await Promise.race([closed, sleep(50)]);
      socket.destroy();
    }
  }

  /** Sends requests as fast as possible on persistent connections until stopped; returns the number of responses. */
  async function askHttp(over: AbortSignal): Promise<number> {
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    let asked = 0;
    const one = (): Promise<void> =>
      new Promise((resolve, reject) => {
        const options = { port: ports.http, host: "127.0.0.1", agent, path: `/known/${1000 + asked}/exact` };
        get(options, (response) => response.resume().once("end", resolve)).once("error", reject);
      });
    const ask = async (): Promise<void> => {
      while (!over.aborted) {
        asked++;
        await one();
      }
    };
    await Promise.all([ask(), ask()]);
    agent.destroy();
    return asked;
  }

  async function askRedis(over: AbortSignal): Promise<number> {
    const socket = connect(ports.redis, "127.0.0.1").setNoDelay();
    await once(socket, "connect");
    let asked = 0;
    while (!over.aborted) {
      asked++;
      socket.write("*2\r\n$4\r\nECHO\r\n$5\r\nknown\r\n");
      await once(socket, "data");
    }
    socket.destroy();
    return asked;
  }

  it.each([1, 2])("do not affect the counts of valid requests (seed %i)", async (seed) => {
    await using watch = await TrafficWatch.open({ tls: { isEnabled: true, excludedExecutables: [] } });
    await watch.waitForWindows(2);
    const { pid } = watch;
    const random = seededRandom(seed);
    const lingering: Socket[] = [];
    const over = new AbortController();
    onTestFinished(() => over.abort());
    const known = Promise.all([askHttp(over.signal), askRedis(over.signal)]);
    const all = Array.from({ length: violations }, (_, index) => {
      const protocol = violatedProtocols[index % violatedProtocols.length] ?? "http";
      const elsewhere = random();
      return { made: violation(random, protocol), port: elsewhere < 0.2 ? ports.echo : elsewhere < 0.3 ? ports.sink : ports[protocol] };
    });
    const commitAll = async (): Promise<void> => {
      for (let next = all.pop(); next !== undefined; next = all.pop()) await commit(next.made, next.port, lingering);
    };
    await Promise.all(Array.from({ length: 8 }, commitAll));
    expect(lingering.length).toBeGreaterThan(10);
    over.abort();
    const [http, redis] = await known;
    for (const socket of lingering) socket.destroy();

    const counted = (role: "server" | "client"): number[] => [
      watch.count((group) => group.role === role && group.serverPort === ports.http && group.route === "/known/{id}/exact"),
      watch.count((group) => group.role === role && group.serverPort === ports.redis && group.method === "ECHO"),
    ];
    const wanted = { server: [http, redis], client: [http, redis] };
    const seen = () => ({ server: counted("server"), client: counted("client") });
    await waitFor(
      "all known requests",
      () => [...seen().server, ...seen().client].every((count, index) => count >= ([http, redis][index % 2] ?? 0)),
      { details: () => JSON.stringify({ seen: seen(), wanted }) },
    );
    await watch.waitForWindows(2);
    expect(seen()).toEqual(wanted);
    expect([watch.ends, watch.problems]).toEqual([[], []]);
    expect(watch.pid).toBe(pid);
    expect(watch.rssBytes()).toBeLessThan(200 * mebibyte);
    expect(watch.lost("unknown-protocol") + watch.lost("undecoded")).toBeGreaterThan(0);
    expect([watch.lost("ring-full"), watch.lost("connections-full"), watch.lost("away-seconds")]).toEqual([0, 0, 0]);
  });
});
