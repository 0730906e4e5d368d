/**
 * A daemon's unix socket for the local CLI, for the owner of the daemon and root only. JSON over HTTP/1.1, and HTTP/2 without TLS for calls that stream
 * in both directions.
 */

import { constants } from "node:fs";
import { chmod, chown, lstat, mkdir, open, unlink } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Caller } from "../trust/caller.ts";
import type { FileOwner } from "../trust/private-file.ts";
import { ConnectionSet } from "./connection-set.ts";
import { type HttpHandler, sendError } from "./http-handler.ts";
import { createHttpServers, type HttpServers } from "./http-servers.ts";

/** `struct ucred` of SO_PEERCRED: the peer at the time of connect(), checked by the kernel. */
export interface PeerCredentials {
  pid: number;
  uid: number;
  gid: number;
}

export interface ControlServerOptions {
  /** At most 107 bytes: the kernel's limit. */
  path: string;
  /** The uid that may connect, besides root. Default: that of `owner`, else of this process. */
  ownerUid?: number;
  /** Becomes the owner of the socket file (sudo). */
  owner?: FileOwner | undefined;
  /** SO_PEERCRED of a connection; undefined on platforms without it, where only the file mode protects the socket. */
  peerCredentials: ((fd: number) => PeerCredentials) | undefined;
  http: HttpHandler;
  log: Logger;
  /** Concurrent connections; default 64. */
  maxConnections?: number;
  /** Default 10 s. */
  headersTimeoutMs?: number;
  /** For the whole request to arrive. Default 30 s. */
  requestTimeoutMs?: number;
  /** How long `close` waits for requests in progress. Default 2 s. */
  drainTimeoutMs?: number;
}

/** A listening socket. Disposing it is the same as `close`. */
export interface ControlServer extends AsyncDisposable {
  path: string;
  /** Lets requests in progress finish, closes all other connections, removes the socket file. Idempotent. */
  close(): Promise<void>;
}

/** sun_path holds 108 bytes including its final zero. */
const maxPathBytes = 107;

/** Removes the socket file of a daemon that is not running; throws `already-exists` when one accepts connections on it. */
export async function startControlServer(options: ControlServerOptions): Promise<ControlServer> {
  const { path, owner, log } = options;
  assertPathFits(path);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await removeStale(path, log);

  const callers = new WeakMap<Socket, Caller>();
  const requestTimeoutMs = options.requestTimeoutMs ?? 30_000;
  const headersTimeoutMs = Math.min(options.headersTimeoutMs ?? 10_000, requestTimeoutMs);
  const servers = createHttpServers({
    maxStreams: 32,
    headersTimeoutMs,
    requestTimeoutMs,
    idleTimeoutMs: 5_000,
    // Every check wakes the process, even without connections.
    checkIntervalMs: headersTimeoutMs / 2,
    onRequest: (request, response, socket) => {
      const caller = callers.get(socket) ?? { kind: "refused", reason: "unknown connection", loopback: true };
      if (caller.kind === "local") {
        options.http(request, response, caller);
        return;
      }
      const reason = caller.kind === "refused" ? caller.reason : "unknown caller";
      log.warn("request on the control socket refused", { path, reason });
      sendError(response, new CoralError({ code: "not-permitted", message: `Cannot use the socket "${path}": ${reason}` }), {
        closeConnection: true,
      });
    },
    onTimeout: () => undefined,
  });
  const connections = new ConnectionSet(Number.POSITIVE_INFINITY);
  // HTTP/1.1 clients may half-close after their request.
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", (error) => log.debug("connection on the control socket failed", { path, error }));
    connections.add(socket);
    callers.set(socket, callerOf(socket, options));
    serveByVersion(socket, servers, headersTimeoutMs);
  });
  server.maxConnections = options.maxConnections ?? 64;

  await listenOnPath(server, path);
  try {
    await protectSocket(path, owner);
  } catch (error) {
    server.close();
    throw new CoralError({ code: "unavailable", message: `Cannot protect the socket "${path}": ${String(error)}`, cause: error });
  }
  server.on("error", (error) => log.error("control socket failed", { path, error }));

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= shutDown(server, servers, connections, options.drainTimeoutMs ?? 2_000);
    return closing;
  };
  return { path, close, [Symbol.asyncDispose]: close };
}

/** O_PATH of open(2): a descriptor that only identifies the file. */
const openPath = 0o10000000;

/** Uses a descriptor, so that a link put in place of the socket cannot redirect the change to another file. */
async function protectSocket(path: string, owner: FileOwner | undefined): Promise<void> {
  if (process.platform !== "linux") return await chmod(path, 0o600);
  const socket = await open(path, openPath | constants.O_NOFOLLOW);
  try {
    if (!(await socket.stat()).isSocket()) throw new Error("it was replaced while it was opened");
    const same = `/proc/self/fd/${socket.fd}`;
    await chmod(same, 0o600);
    if (owner) await chown(same, owner.uid, owner.gid);
  } finally {
    await socket.close();
  }
}

/** The first bytes of an HTTP/2 client; no HTTP/1.1 request starts with them. */
const http2Preface = Buffer.from("PRI * HTTP/2.0");

/** Detects the version by the first bytes, because a unix socket has no ALPN. The bytes are put back before a server reads them. */
function serveByVersion(socket: Socket, servers: HttpServers, timeoutMs: number): void {
  const timer = setTimeout(() => socket.destroy(), timeoutMs);
  timer.unref();
  socket.once("close", () => clearTimeout(timer));
  let seen = Buffer.alloc(0);
  const detect = (): void => {
    const bytes = socket.read() as Buffer | null;
    if (bytes === null) {
      socket.destroy();
      return;
    }
    seen = Buffer.concat([seen, bytes]);
    const length = Math.min(seen.length, http2Preface.length);
    const isHttp2 = seen.subarray(0, length).equals(http2Preface.subarray(0, length));
    if (isHttp2 && length < http2Preface.length) {
      socket.once("readable", detect);
      return;
    }
    socket.unshift(seen);
    clearTimeout(timer);
    if (!isHttp2) {
      servers.http1(socket);
      return;
    }
    // The HTTP/2 session would outlive its client.
    socket.allowHalfOpen = false;
    servers.http2(socket);
  };
  socket.once("readable", detect);
}

async function shutDown(server: Server, servers: HttpServers, connections: ConnectionSet, timeoutMs: number): Promise<void> {
  // Node removes the socket file when the server closes.
  const stopped = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  await servers.drain(timeoutMs);
  connections.destroyAll();
  await stopped;
}

function assertPathFits(path: string): void {
  const length = Buffer.byteLength(path);
  if (length <= maxPathBytes) return;
  throw new CoralError({
    code: "invalid",
    message: `Cannot listen on the socket "${path}": the path has ${length} bytes, the system allows ${maxPathBytes}; set CORAL_HOME to a shorter path`,
    details: { path, length, maxPathBytes },
  });
}

/** Not atomic: a lock file serialises daemons that start at the same time. */
async function removeStale(path: string, log: Logger): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) {
      throw new CoralError({
        code: "already-exists",
        message: `Cannot listen on the socket "${path}": a file that is not a socket has this path`,
      });
    }
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  if (await isListening(path)) {
    throw new CoralError({
      code: "already-exists",
      message: `Cannot listen on the socket "${path}": a running daemon listens on it`,
      details: { path },
    });
  }
  log.info("removing the socket of a daemon that is not running", { path });
  await unlink(path);
}

/** A socket file outlives its process; only connecting shows whether a daemon still uses it. */
function isListening(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (error) => {
      const code = codeOf(error);
      if (code === "ECONNREFUSED" || code === "ENOENT") resolve(false);
      // EAGAIN: its backlog is full, so a daemon listens.
      else if (code === "EAGAIN") resolve(true);
      else reject(new CoralError({ code: "unavailable", message: `Cannot check the socket "${path}": ${error.message}`, cause: error }));
    });
  });
}

function listenOnPath(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      const code = codeOf(error) === "EADDRINUSE" ? "already-exists" : codeOf(error) === "EACCES" ? "not-permitted" : "unavailable";
      reject(new CoralError({ code, message: `Cannot listen on the socket "${path}": ${error.message}`, cause: error, details: { path } }));
    });
    server.listen(path, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
}

/** Without SO_PEERCRED the file mode 0600 is the only protection, so every caller counts as the owner. */
function callerOf(socket: Socket, options: ControlServerOptions): Caller {
  const ownerUid = options.ownerUid ?? options.owner?.uid ?? process.getuid?.() ?? 0;
  const refused = (reason: string): Caller => ({ kind: "refused", reason, loopback: true });
  if (!options.peerCredentials) return { kind: "local", uid: ownerUid, pid: 0 };
  const fd = fdOf(socket);
  if (fd === undefined) return refused("the caller disconnected");
  try {
    const { uid, pid } = options.peerCredentials(fd);
    if (uid === ownerUid || uid === 0) return { kind: "local", uid, pid };
    return refused(`it belongs to uid ${ownerUid}, the caller is uid ${uid}; run the command as that user or as root`);
  } catch (error) {
    options.log.error("cannot read the credentials of a caller", { path: options.path, error });
    return refused("the system cannot identify the caller");
  }
}

/** The file descriptor of a socket; undefined once it is closed. Node has no public API for it. */
function fdOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { _handle?: { fd?: unknown } | null };
  return typeof handle?.fd === "number" && handle.fd >= 0 ? handle.fd : undefined;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
