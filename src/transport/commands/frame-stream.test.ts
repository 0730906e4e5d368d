import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { startTestColony, temporaryDirectory } from "../colony.fixture.ts";
import { requestFrames, requestJson } from "../http/control-client.ts";
import { startControlServer } from "../http/control-server.ts";
import { createHttpRoutes, type Route } from "../http/http-routes.ts";
import { createFrameStream, type Frame, type FrameStream } from "./frame-stream.ts";

/** Two ends of a real connection. */
async function pair(): Promise<AsyncDisposable & { near: Socket; far: Socket }> {
  const server = createServer({ allowHalfOpen: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address() as { port: number };
  const near = connect({ port: address.port, host: "127.0.0.1", allowHalfOpen: true });
  const [far] = (await once(server, "connection")) as [Socket];
  return {
    near,
    far,
    [Symbol.asyncDispose]: async () => {
      near.destroy();
      far.destroy();
      server.close();
    },
  };
}

async function collect(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const all: Frame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

function frameBytes(kind: number, target: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt8(kind, 0);
  header.writeUInt16BE(target, 2);
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

test("createFrameStream() carries JSON and bytes in order, whatever the pieces", async () => {
  await using sockets = await pair();
  const far = createFrameStream(sockets.far);
  const bytes = Buffer.concat([
    frameBytes(0, 3, Buffer.from('{"a":"ü"}')),
    frameBytes(1, 65_535, Buffer.from([0, 255, 10])),
    frameBytes(2, 1, Buffer.alloc(0)),
    frameBytes(1, 0, Buffer.alloc(70_000, 7)),
  ]);
  const got = collect(far);
  sockets.near.setNoDelay(true);
  for (const byte of bytes.subarray(0, 40)) sockets.near.write(Buffer.from([byte]));
  sockets.near.end(bytes.subarray(40));
  const frames = await got;
  expect(frames).toEqual([
    { kind: "control", target: 3, value: { a: "ü" } },
    { kind: "data", target: 65_535, data: Buffer.from([0, 255, 10]) },
    { kind: "error", target: 1, data: Buffer.alloc(0) },
    { kind: "data", target: 0, data: Buffer.alloc(70_000, 7) },
  ]);
});

test("close() loses nothing that was sent, although the other end was sending", async () => {
  await using sockets = await pair();
  const near = createFrameStream(sockets.near);
  const far = createFrameStream(sockets.far);
  // More than the far end has taken when it closes.
  const sent = near.send({ kind: "data", data: Buffer.alloc(8_000_000) });
  await far.send({ kind: "control", value: "the end" });
  const closed = far.close();
  expect(await sent).toBe(true);
  const frames = await collect(near);
  expect(frames).toEqual([{ kind: "control", target: 0, value: "the end" }]);
  await closed;
});

test("createFrameStream() cuts large data, keeps its order and tells of the end", async () => {
  await using sockets = await pair();
  const near = createFrameStream(sockets.near);
  const far = createFrameStream(sockets.far);
  const sent = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => index % 251));
  const got = collect(far);
  expect(await near.send({ kind: "data", target: 2, data: sent })).toBe(true);
  await near.close();
  const frames = await got;
  expect(frames.length).toBeGreaterThan(10);
  expect(frames.every((frame) => frame.kind === "data" && frame.target === 2)).toBe(true);
  expect(Buffer.concat(frames.map((frame) => (frame.kind === "data" ? frame.data : Buffer.alloc(0)))).equals(sent)).toBe(true);
  expect(far.signal.aborted).toBe(true);
  expect(await near.send({ kind: "control", value: {} })).toBe(false);
});

test("createFrameStream() makes a writer wait for a reader that does not read, and lets it go when that one leaves", async () => {
  await using sockets = await pair();
  const near = createFrameStream(sockets.near);
  let sent = 0;
  const writing = (async () => {
    for (; sent < 1_000; sent++) if (!(await near.send({ kind: "data", data: Buffer.alloc(100_000) }))) return "left";
    return "all sent";
  })();
  // The kernel's buffers take some of it first.
  let before = -1;
  await vi.waitUntil(() => {
    const isStill = sent === before && sockets.near.writableNeedDrain;
    before = sent;
    return isStill;
  });
  expect(sent).toBeLessThan(900);
  sockets.far.resetAndDestroy();
  expect(await writing).toBe("left");
  expect(near.signal.aborted).toBe(true);
});

test.each([
  ["an unknown kind", Buffer.from([9, 0, 0, 0, 0, 0, 0, 1, 1])],
  ["a byte that must be zero", Buffer.from([1, 1, 0, 0, 0, 0, 0, 1, 1])],
  ["too many bytes", Buffer.from([1, 0, 0, 0, 255, 255, 255, 255])],
  ["too much JSON", Buffer.from([0, 0, 0, 0, 255, 0, 0, 0])],
  ["bad JSON", frameBytes(0, 0, Buffer.from("{"))],
])("createFrameStream() refuses %s", async (_name, bytes) => {
  await using sockets = await pair();
  sockets.near.end(bytes);
  await expect(collect(createFrameStream(sockets.far))).rejects.toMatchObject({ code: "invalid" });
});

const echo = async (frames: FrameStream): Promise<void> => {
  for await (const frame of frames) {
    if (frame.kind === "control") {
      if (frame.value === "end") return;
      if (frame.value === "fail") throw new CoralError({ code: "unsupported", message: "Cannot do that" });
    } else await frames.send(frame);
  }
};
const routes: Route[] = [
  { kind: "frames", path: "/v1/echo", permission: "exec", handle: echo },
  {
    kind: "json",
    method: "POST",
    path: "/v1/plain",
    permission: "read",
    handle: ({ body, from }) => ({ kind: "json", value: { body, from } }),
  },
];

async function startSocket(directory: string, allow = true) {
  const path = join(directory, "x.sock");
  const server = await startControlServer({
    path,
    peerCredentials: undefined,
    log: silentLogger,
    drainTimeoutMs: 100,
    http: createHttpRoutes({
      routes,
      authorize: () => {
        if (allow) return { name: "me" };
        throw new CoralError({ code: "not-permitted", message: "Cannot do this: not you" });
      },
      notReady: () => undefined,
      metrics: () => Promise.resolve(""),
      log: silentLogger,
    }),
  });
  return { server, target: { kind: "unix", path } as const };
}

async function echoOnce(frames: FrameStream): Promise<void> {
  await frames.send({ kind: "data", target: 7, data: Buffer.from("hello") });
  await frames.send({ kind: "control", value: "end" });
  expect(await collect(frames)).toEqual([{ kind: "data", target: 7, data: Buffer.from("hello") }]);
}

test("requestFrames() upgrades a unix socket", async () => {
  await using directory = await temporaryDirectory();
  const { server, target } = await startSocket(directory.path);
  await using _server = server;
  await echoOnce(await requestFrames({ target, path: "/v1/echo" }));
});

test("requestFrames() upgrades the TLS port with a token, and loopback refuses without one", async () => {
  const asked: string[] = [];
  await using colony = await startTestColony({
    routing: {
      routes,
      authorize: (caller, permission) => {
        asked.push(`${caller.kind} ${permission}`);
        if (caller.kind !== "bearer") throw new CoralError({ code: "unauthenticated", message: "Cannot do this: who are you" });
        return { name: caller.token };
      },
    },
  });
  const { endpoint, authority } = colony;
  const target = { kind: "https", endpoint, caFingerprint: authority.fingerprint, token: "coral_user_x" } as const;
  await echoOnce(await requestFrames({ target, path: "/v1/echo" }));
  expect(asked).toEqual(["bearer exec"]);
  const plain = connect(colony.server.port, "127.0.0.1");
  plain.write(`POST /v1/echo HTTP/1.1\r\nHost: ${endpoint}\r\nConnection: Upgrade\r\nUpgrade: coral-frames/1\r\n\r\n`);
  const chunks: Buffer[] = [];
  for await (const chunk of plain) chunks.push(chunk as Buffer);
  const reply = Buffer.concat(chunks).toString();
  expect(reply).toContain("HTTP/1.1 401");
  expect(reply).toContain('"code":"unauthenticated"');
});

test("requestFrames() throws what the daemon refuses with, before and after the upgrade", async () => {
  await using directory = await temporaryDirectory();
  const { server, target } = await startSocket(directory.path, false);
  await using _server = server;
  await expect(requestFrames({ target, path: "/v1/echo" })).rejects.toMatchObject({
    code: "not-permitted",
    message: "Cannot do this: not you",
  });
  await expect(requestFrames({ target, path: "/nowhere" })).rejects.toMatchObject({ code: "not-found" });

  await using other = await temporaryDirectory();
  const open = await startSocket(other.path);
  await using _other = open.server;
  await expect(requestFrames({ target: open.target, path: "/v1/plain" })).rejects.toMatchObject({ code: "invalid" });
  await expect(requestJson({ target: open.target, method: "POST", path: "/v1/echo" })).rejects.toMatchObject({ code: "invalid" });
  const frames = await requestFrames({ target: open.target, path: "/v1/echo" });
  await frames.send({ kind: "control", value: "fail" });
  expect(await collect(frames)).toMatchObject([
    { kind: "control", value: { kind: "error", error: { code: "unsupported", message: "Cannot do that" } } },
  ]);
});

test("startControlServer() answers requests with another upgrade as if they had not asked for it", async () => {
  await using directory = await temporaryDirectory();
  const { server, target } = await startSocket(directory.path);
  await using _server = server;
  const socket = connect(target.path);
  const body = JSON.stringify({ x: "y".repeat(100_000) });
  socket.write(
    `POST /v1/plain HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  socket.write(body);
  let reply = "";
  for await (const chunk of socket.setEncoding("utf8") as AsyncIterable<string>) {
    reply += chunk;
    if (reply.includes('"from"')) break;
  }
  expect(reply).toContain("HTTP/1.1 200 OK");
  expect(reply).toContain(`"x":"yyyy`);
});

test("startControlServer() closes although frames are open", async () => {
  await using directory = await temporaryDirectory();
  const { server, target } = await startSocket(directory.path);
  const frames = await requestFrames({ target, path: "/v1/echo" });
  await server.close();
  await vi.waitFor(() => expect(frames.signal.aborted).toBe(true));
});
