/** Hostile and broken clients. After each, the port must still serve other clients. */

import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect as connectHttp2, constants } from "node:http2";
import { connect, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { silentLogger } from "../base/log.ts";
import { agentRoutes, issueIdentity, startTestColony, type TestColony } from "./colony.fixture.ts";
import { registerAgent } from "./tunnel/colony-client.ts";
import { dialTunnel } from "./tunnel/dial-tunnel.ts";

const never = new AbortController().signal;

/** Regular clients still work. */
async function expectAlive(colony: TestColony): Promise<void> {
  const identity = await issueIdentity(colony.authority, "regular");
  const { endpoint } = colony;
  expect((await registerAgent({ endpoint, identity, request: {}, signal: never })).sessionId).toBe("session of regular");
  const tunnel = await dialTunnel({
    endpoint,
    identity,
    colonyId: identity.colonyId,
    routes: agentRoutes("regular"),
    signal: never,
    log: silentLogger,
  });
  await tunnel.close("test");
  expect((await fetch(`http://${endpoint}/healthz`)).status).toBe(200);
}

function rawSocket(colony: TestColony): Socket {
  return connect(colony.server.port, "127.0.0.1").on("error", () => undefined);
}

/** Discards data until the other side closes, with or without a reset; `once()` of node:events would reject on a reset. */
async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await new Promise<void>((resolve) => void socket.resume().once("close", () => resolve()));
}

async function tlsSocket(colony: TestColony, alpn: string): Promise<TLSSocket> {
  const socket = connectTls({ host: "127.0.0.1", port: colony.server.port, ALPNProtocols: [alpn], rejectUnauthorized: false });
  socket.on("error", () => undefined);
  await once(socket, "secureConnect");
  return socket;
}

/** Pseudo-random bytes with a fixed seed. */
function seededBytes(seed: number, length: number): Buffer {
  let state = seed;
  return Buffer.from(
    Array.from({ length }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state >>> 24;
    }),
  );
}

test("random bytes, raw and after a TLS record header, do not affect other clients (seeded)", async () => {
  await using colony = await startTestColony({ limits: { handshakeTimeoutMs: 500, headersTimeoutMs: 500 } });
  const sockets: Socket[] = [];
  for (let round = 0; round < 60; round++) {
    const socket = rawSocket(colony);
    sockets.push(socket);
    const bytes = seededBytes(round + 1, 1 + ((round * 37) % 600));
    if (round % 3 === 0) bytes[0] = 0x16;
    if (round % 3 === 1) Buffer.from("GET / HTTP/1.1\r\n").copy(bytes);
    socket.write(bytes);
  }
  await Promise.all(sockets.map(closed));
  await expectAlive(colony);
});

test("random bytes inside TLS do not affect other clients, for any negotiated protocol (seeded)", async () => {
  await using colony = await startTestColony({
    limits: { headersTimeoutMs: 500, idleTimeoutMs: 500 },
    tunnel: { pingIntervalMs: 100, pingTimeoutMs: 300 },
  });
  const sockets: TLSSocket[] = [];
  for (const alpn of ["h2", "http/1.1", "coral-tunnel/1"]) {
    for (let round = 0; round < 8; round++) {
      const socket = await tlsSocket(colony, alpn);
      sockets.push(socket);
      if (alpn === "h2" && round % 2 === 0) socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
      socket.write(seededBytes(round + 100, 200 + round * 50));
    }
  }
  await Promise.all(sockets.map(closed));
  await expectAlive(colony);
});

test("truncated TLS handshakes are cut at the deadline", async () => {
  await using colony = await startTestColony({ limits: { handshakeTimeoutMs: 200 } });
  const sockets = [Buffer.from([0x16]), Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]), Buffer.alloc(0)].map((bytes) => {
    const socket = rawSocket(colony);
    if (bytes.length > 0) socket.write(bytes);
    return socket;
  });
  await expectAlive(colony);
  await Promise.all(sockets.map(closed));
  expect(colony.server.stats()).toMatchObject({ pendingConnections: 0 });
  expect(colony.server.stats().refused.timeout + colony.server.stats().refused.handshake).toBeGreaterThanOrEqual(3);
});

test("in a flood of silent connections, the oldest are dropped and new ones are served", async () => {
  await using colony = await startTestColony({ limits: { maxPendingConnections: 20 } });
  const silent = Array.from({ length: 50 }, () => rawSocket(colony));
  await expect.poll(() => colony.server.stats().refused.limit).toBe(30);
  expect(colony.server.stats().pendingConnections).toBe(20);
  await expectAlive(colony);
  for (const socket of silent) socket.destroy();
});

test("a huge RPC body is refused without being read to its end", async () => {
  await using colony = await startTestColony({ limits: { maxBodyBytes: 100_000 } });
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  const stream = session.request({
    ":method": "POST",
    ":path": "/coral.colony.v1.ColonyService/Join",
    "content-type": "application/proto",
    "connect-protocol-version": "1",
  });
  stream.on("error", () => undefined);
  let sentBytes = 0;
  const pump = (): void => {
    while (sentBytes < 50_000_000 && !stream.destroyed && stream.write(Buffer.alloc(65_536))) sentBytes += 65_536;
  };
  stream.on("drain", pump);
  pump();
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  expect(headers[":status"]).toBe(429);
  expect(sentBytes).toBeLessThan(10_000_000);
  session.destroy();
  await expectAlive(colony);
});

test("a huge JSON body gets 413", async () => {
  await using colony = await startTestColony({
    routing: {
      maxBodyBytes: 1_000,
      routes: [{ kind: "json", method: "POST", path: "/v1/x", permission: "read", handle: () => ({ kind: "json", value: 1 }) }],
    },
  });
  const status = (headers: Record<string, string>, body: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const request = httpRequest(
        { host: "127.0.0.1", port: colony.server.port, path: "/v1/x", method: "POST", headers, agent: false },
        (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        },
      );
      request.on("error", reject);
      request.write(body);
      if (headers["content-length"] === undefined) request.end();
    });
  const json = { "content-type": "application/json" };
  expect(await status({ ...json, "content-length": "5000000000" }, "{")).toBe(413);
  expect(await status({ ...json, "transfer-encoding": "chunked" }, `"${"x".repeat(5_000)}"`)).toBe(413);
  expect(await status({ ...json, "transfer-encoding": "chunked" }, '"small"')).toBe(200);
  await expectAlive(colony);
});

test("huge headers get 431", async () => {
  await using colony = await startTestColony();
  const socket = rawSocket(colony);
  socket.write(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(40_000)}\r\n\r\n`);
  const [data] = (await once(socket, "data")) as [Buffer];
  expect(data.toString()).toContain("431");
  await expectAlive(colony);
});

test("slow headers and slow bodies are disconnected, over plain HTTP and TLS", async () => {
  const limits = { handshakeTimeoutMs: 400, headersTimeoutMs: 300, requestTimeoutMs: 400, idleTimeoutMs: 300 };
  await using colony = await startTestColony({ limits, routing: { bodyTimeoutMs: 5_000 } });
  const drip = (socket: Socket, head: string): Promise<void> => {
    socket.write(head);
    const timer = setInterval(() => socket.write("a"), 50);
    return closed(socket).finally(() => clearInterval(timer));
  };
  const victims = [
    drip(rawSocket(colony), "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "),
    drip(rawSocket(colony), "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"),
    drip(await tlsSocket(colony, "http/1.1"), "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "),
    // HTTP/2: only the client preface, then half frames.
    drip(await tlsSocket(colony, "h2"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    drip(await tlsSocket(colony, "h2"), ""),
    // No byte after the handshake.
    closed(await tlsSocket(colony, "http/1.1")),
    closed(await tlsSocket(colony, "h2")),
  ];
  await expectAlive(colony);
  await Promise.all(victims);
  await expect.poll(() => colony.server.stats().requestConnections).toBe(0);
});

test("an HTTP/2 request whose body never comes is reset", async () => {
  await using colony = await startTestColony({ limits: { requestTimeoutMs: 200 } });
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  const stream = session.request(
    { ":method": "POST", ":path": "/coral.colony.v1.ColonyService/Join", "content-type": "application/proto" },
    { endStream: false },
  );
  stream.on("error", () => undefined).resume();
  stream.write("x");
  await once(stream, "close");
  expect(colony.server.stats().refused.timeout).toBe(1);
  session.destroy();
});

test("an authority that is not a URL gets 400, not an uncaught error", async () => {
  await using colony = await startTestColony();
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  const stream = session.request({
    ":method": "POST",
    ":path": "/coral.colony.v1.ColonyService/Join",
    ":authority": "][",
    "content-type": "application/proto",
  });
  stream.on("error", () => undefined).end();
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  expect(headers[":status"]).toBe(400);
  session.destroy();
  await expectAlive(colony);
});

test("random, truncated and oversized RPC bodies get an error (seeded)", async () => {
  await using colony = await startTestColony();
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  for (let round = 0; round < 40; round++) {
    const stream = session.request({
      ":method": "POST",
      ":path": "/coral.colony.v1.ColonyService/Join",
      "content-type": round % 2 === 0 ? "application/proto" : "application/json",
      "connect-protocol-version": "1",
    });
    stream.on("error", () => undefined).end(seededBytes(round + 7, round * 10));
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    expect(headers[":status"]).toBeGreaterThanOrEqual(400);
    stream.close(constants.NGHTTP2_CANCEL);
  }
  session.destroy();
  await expectAlive(colony);
});

test("one connection cannot open more streams than allowed", async () => {
  const waiting: (() => void)[] = [];
  await using colony = await startTestColony({
    limits: { maxStreams: 4 },
    http: (_request, response) => {
      waiting.push(() => response.end());
    },
  });
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  await once(session, "remoteSettings");
  expect(session.remoteSettings.maxConcurrentStreams).toBe(4);
  for (let i = 0; i < 10; i++) session.request({ ":path": "/x" }).on("error", () => undefined);
  await expect.poll(() => waiting.length).toBe(4);
  for (const answer of waiting.splice(0)) answer();
  await expect.poll(() => waiting.length).toBe(4);
  session.destroy();
});
