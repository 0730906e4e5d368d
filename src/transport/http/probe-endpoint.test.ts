import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type ProbeRequest, probeEndpoint } from "./probe-endpoint.ts";

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Server, host = "127.0.0.1"): Promise<number> {
  servers.push(server);
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, host);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const served = (handle: RequestListener): Promise<number> => listening(createHttpServer(handle));

function probe(port: number, change: Partial<ProbeRequest> = {}) {
  return probeEndpoint({ address: "127.0.0.1", port, timeoutMs: 10_000, signal: new AbortController().signal, ...change });
}

/** A port that no other program can listen on: the local port of a client connection. */
async function closedPort(): Promise<number> {
  const client = connect(await listening(createServer()), "127.0.0.1");
  sockets.add(client);
  await once(client, "connect");
  return client.localPort ?? 0;
}

describe("probeEndpoint() by TCP", () => {
  it("is healthy when the connection is accepted, over IPv4 and IPv6", async () => {
    expect(await probe(await listening(createServer()))).toEqual({ kind: "fine", detail: "connection accepted" });
    expect(await probe(await listening(createServer(), "::1"), { address: "::1" })).toMatchObject({ kind: "fine" });
  });

  it("reports a port without a listener", async () => {
    expect(await probe(await closedPort())).toEqual({ kind: "failed", reason: "refused", detail: "connection refused" });
  });

  it.each(["192.0.2.1", "8.8.8.8", "localhost", "example.com", ""])(
    "refuses %j, which is not an address of this machine",
    async (address) => {
      await expect(probe(1, { address })).rejects.toMatchObject({ code: "not-permitted" });
    },
  );

  it("accepts an address of this machine's containers", async () => {
    // Documentation range: nothing responds, so that only the timeout can end it.
    const outcome = await probe(9, { address: "192.0.2.1", ownAddresses: ["192.0.2.1"], timeoutMs: 50 });
    expect(outcome.kind).toBe("failed");
  });
});

describe("probeEndpoint() by HTTP", () => {
  const http = { path: "/health?deep=1", tls: false };

  it.each([
    [200, "fine"],
    [204, "fine"],
    [302, "fine"],
    [404, "failed"],
    [503, "failed"],
  ])("judges status %d as %s", async (status, kind) => {
    const requests: unknown[] = [];
    const port = await served((request, response) => {
      requests.push([request.method, request.url, request.headers.host]);
      response.writeHead(status, status === 302 ? { location: "http://192.0.2.1/" } : {}).end();
    });
    expect(await probe(port, { http })).toMatchObject({ kind, detail: `HTTP ${status}` });
    expect(requests).toEqual([["GET", "/health?deep=1", `localhost:${port}`]]);
  });

  it("does not wait for a body that never ends, and hangs up", async () => {
    const closed = new Promise<void>((resolve) => {
      void served((_request, response) => {
        response.on("close", resolve);
        response.writeHead(200).write("…");
      }).then(async (port) => expect(await probe(port, { http })).toMatchObject({ kind: "fine" }));
    });
    await closed;
  });

  it("times out on a server that accepts and stays silent", async () => {
    expect(await probe(await listening(createServer()), { http, timeoutMs: 60 })).toEqual({
      kind: "failed",
      reason: "timeout",
      detail: "no response within 60 ms",
    });
  });

  it.each([
    ["garbage", "\u0000\u0001SSH-2.0 hello\r\n", "the response is not HTTP"],
    ["an endless header", `HTTP/1.1 200 OK\r\nx: ${"a".repeat(100_000)}`, "the response is not HTTP"],
  ])("reports a failure for %s", async (_what, bytes, detail) => {
    const port = await listening(createServer((socket) => socket.on("error", () => undefined).write(bytes)));
    expect(await probe(port, { http })).toEqual({ kind: "failed", reason: "broken", detail });
  });

  it("reports a closed connection, and plain HTTP instead of TLS", async () => {
    const cutting = await listening(createServer((socket) => socket.destroy()));
    expect(await probe(cutting, { http })).toMatchObject({ kind: "failed", reason: "broken" });
    const plain = await served((_request, response) => response.end());
    expect(await probe(plain, { http: { ...http, tls: true } })).toMatchObject({ kind: "failed", reason: "broken" });
  });

  it("ends when aborted", async () => {
    const port = await listening(createServer());
    await expect(probe(port, { http, signal: AbortSignal.timeout(30), timeoutMs: 60_000 })).rejects.toMatchObject({ name: "TimeoutError" });
  });
});
