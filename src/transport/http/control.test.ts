/** Control server and client against each other, on real sockets. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { startTestColony, temporaryDirectory } from "../colony.fixture.ts";
import { type ControlTarget, type JsonRequest, requestJson, requestLines, requestRaw, requestText } from "./control-client.ts";
import { type ControlServer, type ControlServerOptions, startControlServer } from "./control-server.ts";
import { createHttpRoutes, type Route } from "./http-routes.ts";

const uid = process.getuid?.() ?? 0;

const routes: Route[] = [
  { kind: "json", method: "GET", path: "/v1/who", permission: "read", handle: ({ caller }) => ({ kind: "json", value: caller }) },
  {
    kind: "json",
    method: "POST",
    path: "/v1/echo/:name",
    permission: "read",
    handle: ({ body, params, query }) => ({ kind: "json", value: { body, params, q: query.get("q") } }),
  },
  {
    kind: "json",
    method: "GET",
    path: "/v1/client",
    permission: "read",
    handle: ({ through }) => ({ kind: "json", value: through.client }),
  },
  { kind: "json", method: "GET", path: "/v1/never", permission: "read", handle: () => new Promise<never>(() => undefined) },
  {
    kind: "json",
    method: "GET",
    path: "/v1/fails",
    permission: "read",
    handle: () => {
      throw new CoralError({ code: "unsupported", message: "Cannot do it: no such kernel", details: { kernel: "4.9" } });
    },
  },
];

function start(path: string, options: Partial<ControlServerOptions> = {}): Promise<ControlServer> {
  return startControlServer({
    path,
    peerCredentials: () => ({ pid: 42, uid, gid: 0 }),
    log: silentLogger,
    http: createHttpRoutes({
      routes,
      authorize: (caller) => ({ name: caller.kind }),
      notReady: () => "still starting",
      metrics: () => Promise.resolve("coral_up 1\n"),
      log: silentLogger,
      maxBodyBytes: 100_000,
    }),
    ...options,
  });
}

function call(target: ControlTarget, path: string, change: Partial<JsonRequest> = {}): Promise<unknown> {
  return requestJson({ target, method: "GET", path, timeoutMs: 20_000, ...change });
}

async function failureOf(promise: Promise<unknown>): Promise<CoralError> {
  const error = await promise.then(
    (value) => value,
    (reason: unknown) => reason,
  );
  if (error instanceof CoralError) return error;
  throw new Error(`no CoralError: ${JSON.stringify(error)}`);
}

test("requestJson() talks to a daemon over its unix socket", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "run", "agent.sock");
  await using _server = await start(path);
  const target: ControlTarget = { kind: "unix", path };
  expect(await call(target, "/v1/who")).toEqual({ kind: "local", uid, pid: 42 });
  expect(await call(target, "/v1/echo/a%20b?q=1", { method: "POST", body: { x: [1, "ü"] } })).toEqual({
    body: { x: [1, "ü"] },
    params: { name: "a b" },
    q: "1",
  });
  expect(await requestText({ target, method: "GET", path: "/metrics" })).toBe("coral_up 1\n");
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await stat(join(dir.path, "run"))).mode & 0o777).toBe(0o700);
});

test("requestLines() yields each line as it arrives, revives errors, and disconnects when its reader stops", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  let next: ReadableStreamDefaultController<string> | undefined;
  let isCancelled = false;
  const stream: Route = {
    kind: "web",
    methods: ["POST"],
    path: "/v1/lines",
    permission: "read",
    handle: async () => {
      const body = new ReadableStream<string>({
        start: (controller) => {
          next = controller;
        },
        cancel: () => {
          isCancelled = true;
        },
      });
      return new Response(body.pipeThrough(new TextEncoderStream()));
    },
  };
  await using _server = await start(path, {
    http: createHttpRoutes({
      routes: [stream, ...routes],
      authorize: (caller) => ({ name: caller.kind }),
      notReady: () => undefined,
      metrics: () => Promise.resolve(""),
      log: silentLogger,
    }),
  });
  const target: ControlTarget = { kind: "unix", path };
  const lines = requestLines({ target, method: "POST", path: "/v1/lines", body: {} });
  const first = lines.next();
  await vi.waitFor(() => expect(next).toBeDefined());
  next?.enqueue('{"n":1}\n\n{"n"');
  expect(await first).toEqual({ done: false, value: { n: 1 } });
  next?.enqueue(':"ü"}\n{"kind":"error","error":{"code":"unsupported","message":"Cannot","details":{}}}\n');
  expect(await lines.next()).toEqual({ done: false, value: { n: "ü" } });
  expect(await failureOf(lines.next())).toMatchObject({ code: "unsupported", message: "Cannot" });
  await vi.waitFor(() => expect(isCancelled).toBe(true));
  isCancelled = false;
  const before = next;
  const left = requestLines({ target, method: "POST", path: "/v1/lines", body: {} });
  const one = left.next();
  await vi.waitFor(() => expect(next).not.toBe(before));
  next?.enqueue("1\n");
  await one;
  await left.return(undefined);
  await vi.waitFor(() => expect(isCancelled).toBe(true));
  expect(await failureOf(requestLines({ target, method: "GET", path: "/v1/fails" }).next())).toMatchObject({ code: "unsupported" });
});

test("requestJson() names the client that calls, which decides what models may do", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "agent.sock");
  await using _server = await start(path);
  const target: ControlTarget = { kind: "unix", path };
  expect(await call(target, "/v1/client", { client: "mcp" })).toBe("mcp");
  expect(await call(target, "/v1/client")).toBe("cli");
});

test("requestJson() revives the daemon's CoralError", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  await using _server = await start(path);
  const target: ControlTarget = { kind: "unix", path };
  expect(await failureOf(call(target, "/v1/fails"))).toMatchObject({
    code: "unsupported",
    message: "Cannot do it: no such kernel",
    details: { kernel: "4.9" },
  });
  expect(await failureOf(call(target, "/v1/nothing"))).toMatchObject({ code: "not-found" });
  expect(await failureOf(call(target, "/readyz"))).toMatchObject({ code: "unavailable", message: expect.stringContaining("503") });
  expect(await failureOf(call(target, "/v1/echo/x", { method: "POST", body: "x".repeat(200_000) }))).toMatchObject({ code: "exhausted" });
});

test("requestJson() reports a daemon that is not running, one that is too slow, and a server that is not a daemon", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  const target: ControlTarget = { kind: "unix", path };
  const notRunning = { code: "unavailable", details: { reason: "not-running" } };
  expect(await failureOf(call(target, "/v1/who"))).toMatchObject(notRunning);
  {
    await using _server = await start(path, { drainTimeoutMs: 50 });
    expect(await failureOf(call(target, "/v1/never", { timeoutMs: 50 }))).toMatchObject({ code: "timeout" });
    expect(await failureOf(call(target, "/v1/never", { signal: AbortSignal.timeout(50) }))).toMatchObject({ code: "cancelled" });
  }
  // The server has removed the file.
  expect(await readdir(dir.path)).toEqual([]);
  const odd = createServer((socket) =>
    socket
      .on("error", () => undefined)
      .resume()
      .end("hello?\r\n"),
  ).listen(path);
  await once(odd, "listening");
  expect((await failureOf(call(target, "/v1/who"))).code).toBe("unavailable");
  odd.close();
  await once(odd, "close");
  const html = createHttpServer((_request, response) => response.end("<html>")).listen(path);
  await once(html, "listening");
  expect(await failureOf(call(target, "/"))).toMatchObject({ code: "internal", message: expect.stringContaining("not valid JSON") });
  expect(await failureOf(call(target, "/", { maxReplyBytes: 3 }))).toMatchObject({ code: "exhausted" });
  html.close();
});

test("startControlServer() refuses other users, and names the owner of the socket", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  let caller = { pid: 1, uid: 1001, gid: 1001 };
  await using _server = await start(path, { ownerUid: 1000, peerCredentials: () => caller });
  const target: ControlTarget = { kind: "unix", path };
  const refused = await failureOf(call(target, "/healthz"));
  expect(refused.code).toBe("not-permitted");
  expect(refused.message).toContain("belongs to uid 1000, the caller is uid 1001");
  caller = { pid: 1, uid: 1000, gid: 1001 };
  expect(await call(target, "/v1/who")).toMatchObject({ kind: "local", uid: 1000 });
  caller = { pid: 1, uid: 0, gid: 0 };
  expect(await call(target, "/v1/who")).toMatchObject({ kind: "local", uid: 0 });
});

test("startControlServer() refuses everyone when the system cannot identify the caller", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  await using _server = await start(path, {
    peerCredentials: () => {
      throw new Error("no such call");
    },
  });
  expect(await failureOf(call({ kind: "unix", path }, "/healthz"))).toMatchObject({ code: "not-permitted" });
});

test("startControlServer() passes a valid descriptor", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  const descriptors: number[] = [];
  await using _server = await start(path, {
    peerCredentials: (fd) => {
      descriptors.push(fd);
      return { pid: 1, uid, gid: 0 };
    },
  });
  await call({ kind: "unix", path }, "/healthz");
  expect(descriptors[0]).toBeGreaterThan(2);
});

test("startControlServer() refuses a path that is too long for the kernel", async () => {
  await using dir = await temporaryDirectory();
  const longest = join(dir.path, "x".repeat(107 - dir.path.length - 1));
  await using _server = await start(longest);
  expect(await call({ kind: "unix", path: longest }, "/healthz")).toEqual({ status: "ok" });
  const error = await failureOf(start(`${longest}y`));
  expect(error).toMatchObject({ code: "invalid", message: expect.stringContaining("108 bytes, the system allows 107") });
  expect(error.message).toContain("CORAL_HOME");
});

test("startControlServer() refuses a second server on the same socket without disturbing the first", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  await using _server = await start(path);
  expect(await failureOf(start(path))).toMatchObject({
    code: "already-exists",
    message: expect.stringContaining("a running daemon listens"),
  });
  expect(await call({ kind: "unix", path }, "/healthz")).toEqual({ status: "ok" });
});

test("startControlServer() replaces the socket of a daemon that was killed", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  const script = `require("net").createServer().listen(${JSON.stringify(path)}, () => console.log("up"))`;
  const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await readdir(dir.path)).toEqual(["s"]);
  expect(await failureOf(call({ kind: "unix", path }, "/healthz"))).toMatchObject({ details: { reason: "not-running" } });
  await using _server = await start(path);
  expect(await call({ kind: "unix", path }, "/healthz")).toEqual({ status: "ok" });
});

test("startControlServer() does not remove a file that is not a socket", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  await writeFile(path, "precious");
  expect(await failureOf(start(path))).toMatchObject({ code: "already-exists", message: expect.stringContaining("not a socket") });
  await mkdir(join(dir.path, "d"));
  expect((await failureOf(start(join(dir.path, "d")))).code).toBe("already-exists");
});

test("startControlServer() disconnects slow clients and closes within its drain time", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  const server = await start(path, { headersTimeoutMs: 200, drainTimeoutMs: 100 });
  const slow = connect(path).on("error", () => undefined);
  slow.write("GET /healthz HTT");
  await once(slow.resume(), "close");
  const hanging = failureOf(call({ kind: "unix", path }, "/v1/never"));
  const idle = connect(path).on("error", () => undefined);
  await once(idle, "connect");
  const startedAtMs = performance.now();
  await server.close();
  await server.close();
  // Without the drain time it would wait for the request forever.
  expect(performance.now() - startedAtMs).toBeLessThan(60_000);
  expect((await hanging).code).toBe("unavailable");
});

test("requestJson() over TLS pins the authority by fingerprint and sends the token", async () => {
  await using colony = await startTestColony({ routing: { routes } });
  const { fingerprint, colonyId } = colony.authority;
  const target = { kind: "https", endpoint: colony.endpoint, caFingerprint: fingerprint, token: "coral_user_x" } as const;
  expect(await call(target, "/v1/who")).toEqual({ kind: "bearer", token: "coral_user_x", loopback: true });
  expect(await call({ ...target, colonyId }, "/healthz")).toEqual({ status: "ok" });
  const wrongPin = await failureOf(call({ ...target, caFingerprint: "00".repeat(32) }, "/v1/who"));
  expect(wrongPin).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("other CA fingerprint") });
  const wrongId = await failureOf(call({ ...target, colonyId: "bank-prod-ffffff" }, "/v1/who"));
  expect(wrongId.code).toBe("unauthenticated");
  await colony.server.close();
  expect(await failureOf(call(target, "/v1/who"))).toMatchObject({ code: "unavailable" });
});

test("requestRaw() returns the raw reply with any status", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "s");
  await using _server = await start(path);
  const reply = await requestRaw({ target: { kind: "unix", path }, method: "GET", path: "/nothing" });
  expect(reply.statusCode).toBe(404);
  expect(reply.headers["content-type"]).toBe("application/json");
  reply.destroy();
});
