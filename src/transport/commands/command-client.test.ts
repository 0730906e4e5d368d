/** CommandService from client to daemon, on real sockets. */

import { createServer as createHttpServer } from "node:http";
import { createServer as createNetServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { startTestColony, temporaryDirectory } from "../colony.fixture.ts";
import { type ControlTarget, requestJson } from "../http/control-client.ts";
import { type ControlServer, type ControlServerOptions, startControlServer } from "../http/control-server.ts";
import { createHttpRoutes, type HttpRoutesOptions, type Route } from "../http/http-routes.ts";
import { type LocalCommandOptions, localCommandRoute } from "./command-session.ts";
import { type CommandClient, type CommandEvents, openCommand } from "./open-command.ts";

const uid = process.getuid?.() ?? 0;
const ignored: CommandEvents = { routed: () => undefined, event: () => undefined, output: () => undefined };

/** Copies its input to its output. */
const cat: LocalCommandOptions["execute"] = async function* (requests) {
  for await (const { message } of requests) {
    if (message.case === "order") yield { event: { case: "started", value: { pid: 7 } } };
    if (message.case === "input") yield { event: { case: "output", value: { stream: "stdout", data: message.value } } };
    if (message.case === "inputEnds") break;
  }
  yield { event: { case: "ended", value: { reason: "exited", exitCode: 3, durationMs: 12n } } };
};

/** Runs until the signal aborts, then calls `onAbort`. */
const endless = (onAbort: () => void): LocalCommandOptions["execute"] =>
  async function* (_requests, signal) {
    yield { event: { case: "started", value: { pid: 7 } } };
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    onAbort();
  };

const localRoute = (execute = cat): Route =>
  localCommandRoute({ agent: { agentId: "a-1", hostname: "here" }, execute, refused: () => Promise.resolve() });

function httpOf(options: Partial<HttpRoutesOptions> = {}) {
  return createHttpRoutes({
    routes: [localRoute()],
    authorize: (caller) => ({ name: caller.kind }),
    notReady: () => undefined,
    metrics: () => Promise.resolve(""),
    log: silentLogger,
    ...options,
  });
}

function start(path: string, options: Partial<ControlServerOptions> = {}): Promise<ControlServer> {
  return startControlServer({ path, peerCredentials: () => ({ pid: 42, uid, gid: 0 }), log: silentLogger, http: httpOf(), ...options });
}

/** The echo of `text`, and how the command ended. */
async function echo(client: CommandClient, text: string) {
  let output = "";
  const sent = (async function* () {
    yield text;
  })();
  const running = client.run(
    { kind: "exec", argv: ["cat"] },
    {
      ...ignored,
      output: (_target, _stream, data) => {
        output += data.toString();
      },
    },
  );
  await client.sendInput(sent);
  const outcome = await running;
  return { output, outcome };
}

async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => "no failure",
    (error: unknown) => error,
  );
}

test("one socket serves JSON over HTTP/1.1 and commands over HTTP/2", async () => {
  await using dir = await temporaryDirectory();
  const target: ControlTarget = { kind: "unix", path: join(dir.path, "a.sock") };
  await using _server = await start(target.path);
  expect(await requestJson({ target, method: "GET", path: "/healthz" })).toEqual({ status: "ok" });
  const text = "0123456789".repeat(100_000);
  const { output, outcome } = await echo(await openCommand({ target }), text);
  expect(output === text).toBe(true);
  expect(outcome).toMatchObject({ kind: "ended", ends: [{ reason: "exited", exitCode: 3, durationMs: 12n }] });
  expect(await requestJson({ target, method: "GET", path: "/healthz" })).toEqual({ status: "ok" });
});

test("another user is refused over HTTP/2", async () => {
  await using dir = await temporaryDirectory();
  const target: ControlTarget = { kind: "unix", path: join(dir.path, "a.sock") };
  await using _server = await start(target.path, { ownerUid: uid + 1, peerCredentials: () => ({ pid: 42, uid: uid + 2, gid: 0 }) });
  const error = await failureOf((await openCommand({ target })).run({ kind: "exec", argv: ["cat"] }, ignored));
  expect(error).toMatchObject({ code: "not-permitted" });
});

test("the TLS port runs commands for callers with permission only", async () => {
  const authorize: HttpRoutesOptions["authorize"] = (caller, permission) => {
    if (caller.kind === "bearer" && caller.token === "good" && permission === "exec") return { name: "token:x" };
    throw new CoralError({ code: "unauthenticated", message: "Cannot serve the request: the token is unknown", details: { permission } });
  };
  await using colony = await startTestColony({ routing: { routes: [localRoute()], authorize } });
  const caFingerprint = colony.authority.fingerprint;
  const target = (token: string): ControlTarget => ({ kind: "https", endpoint: colony.endpoint, caFingerprint, token });
  expect(await echo(await openCommand({ target: target("good") }), "hello")).toMatchObject({ output: "hello", outcome: { kind: "ended" } });
  const error = await failureOf((await openCommand({ target: target("bad") })).run({ kind: "exec", argv: ["cat"] }, ignored));
  expect(error).toMatchObject({
    code: "unauthenticated",
    message: "Cannot serve the request: the token is unknown",
    details: { permission: "exec" },
  });
});

test("a command may run longer than the request timeout", async () => {
  await using colony = await startTestColony({
    routing: { routes: [localRoute()] },
    limits: { requestTimeoutMs: 100, idleTimeoutMs: 100 },
  });
  const caFingerprint = colony.authority.fingerprint;
  const client = await openCommand({ target: { kind: "https", endpoint: colony.endpoint, caFingerprint, token: "t" } });
  const running = client.run({ kind: "exec", argv: ["cat"] }, ignored);
  await new Promise((resolve) => setTimeout(resolve, 400));
  client.endInput();
  expect(await running).toMatchObject({ kind: "ended" });
});

test("run() throws the daemon's error with its code and details", async () => {
  await using dir = await temporaryDirectory();
  const target: ControlTarget = { kind: "unix", path: join(dir.path, "a.sock") };
  await using _server = await start(target.path);
  const refusal = async (order: Parameters<CommandClient["run"]>[0]) => failureOf((await openCommand({ target })).run(order, ignored));
  expect(await refusal({ kind: "exec", argv: ["a\0"] })).toMatchObject({ code: "invalid", details: { field: "argv[0]" } });
  expect(await refusal({ kind: "exec", argv: ["a"], targets: { all: true } })).toMatchObject({
    code: "invalid",
    message: expect.stringContaining("on itself only"),
  });
});

test("hangUp() ends the command at the daemon", async () => {
  await using dir = await temporaryDirectory();
  const target: ControlTarget = { kind: "unix", path: join(dir.path, "a.sock") };
  let onAbort = (): void => undefined;
  const aborted = new Promise<void>((resolve) => {
    onAbort = resolve;
  });
  await using _server = await start(target.path, { http: httpOf({ routes: [localRoute(endless(() => onAbort()))] }) });
  const client = await openCommand({ target });
  const running = client.run({ kind: "exec", argv: ["x"] }, { ...ignored, event: () => client.hangUp() });
  expect(await running).toMatchObject({ kind: "lost" });
  await aborted;
});

test("a daemon that stops disconnects its commands, and the client reports them as lost", async () => {
  await using dir = await temporaryDirectory();
  const target: ControlTarget = { kind: "unix", path: join(dir.path, "a.sock") };
  const server = await start(target.path, { drainTimeoutMs: 50, http: httpOf({ routes: [localRoute(endless(() => undefined))] }) });
  const client = await openCommand({ target });
  let closing: Promise<void> | undefined;
  const running = client.run(
    { kind: "exec", argv: ["x"] },
    {
      ...ignored,
      event: () => {
        closing = server.close();
      },
    },
  );
  expect(await running).toMatchObject({ kind: "lost", ends: [undefined] });
  await closing;
});

test("openCommand() explains a daemon that is not running, too old or silent", async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, "a.sock");
  const target: ControlTarget = { kind: "unix", path };
  expect(await failureOf(openCommand({ target }))).toMatchObject({ code: "unavailable", details: { reason: "not-running" } });
  const old = createHttpServer();
  await new Promise<void>((resolve) => old.listen(path, resolve));
  expect(await failureOf(openCommand({ target }))).toMatchObject({ code: "unsupported", message: expect.stringContaining("restart it") });
  await new Promise((resolve) => old.close(resolve));
  const silent = createNetServer((socket) => socket.resume());
  await new Promise<void>((resolve) => silent.listen(path, resolve));
  expect(await failureOf(openCommand({ target, timeoutMs: 100 }))).toMatchObject({ code: "timeout" });
  expect(await failureOf(openCommand({ target, signal: AbortSignal.abort() }))).toMatchObject({ code: "cancelled" });
  await new Promise((resolve) => silent.close(resolve));
});
