/** A daemon's unix socket: HTTP/1.1 + JSON for the local CLI, only for the owner of the daemon and root. */

import { chmod, lchown, lstat, mkdir, unlink } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { dirname } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Caller } from "../trust/caller.ts";
import type { FileOwner } from "../trust/private-file.ts";
import { ConnectionSet } from "./connection-set.ts";
import { type HttpHandler, sendError } from "./http-handler.ts";
import { acceptUpgrades, type Upgrade } from "./http-upgrade.ts";
import { fdOf } from "./socket-fd.ts";

export interface PeerCredentials {
  pid: number;
  uid: number;
  gid: number;
}

export interface ControlServerOptions {
  /** At the most 107 bytes: the kernel's limit. */
  path: string;
  /** The uid that may call, besides root. Default: `owner`'s, else the process's own. */
  ownerUid?: number;
  /** The socket file is given to it (sudo). */
  owner?: FileOwner | undefined;
  /** SO_PEERCRED of a connection; undefined where the platform has none: then only the file's mode protects. */
  peerCredentials: ((fd: number) => PeerCredentials) | undefined;
  http: HttpHandler;
  log: Logger;
  /** Connections at a time; default 64. */
  maxConnections?: number;
  /** Default 10 s. */
  headersTimeoutMs?: number;
  /** For the whole request to arrive. Default 30 s. */
  requestTimeoutMs?: number;
  /** How long `close` waits for requests under way. Default 2 s. */
  drainTimeoutMs?: number;
}

export interface ControlServer extends AsyncDisposable {
  path: string;
  /** Lets requests under way finish, cuts the rest, removes the socket file. Idempotent. */
  close(): Promise<void>;
}

/** sun_path holds 108 bytes with its closing zero. */
const maxPathBytes = 107;

/** Removes a socket file that nobody answers on; throws `already-exists` when a live daemon does. */
export async function startControlServer(options: ControlServerOptions): Promise<ControlServer> {
  const { path, owner, log } = options;
  assertPathFits(path);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await removeStale(path, log);

  const requestTimeout = options.requestTimeoutMs ?? 30_000;
  // Node refuses one above the other.
  const headersTimeout = Math.min(options.headersTimeoutMs ?? 10_000, requestTimeout);
  const server = createServer({
    headersTimeout,
    requestTimeout,
    keepAliveTimeout: 5_000,
    // Each look wakes the process, whether anybody is connected or not.
    connectionsCheckingInterval: headersTimeout / 2,
  });
  server.maxConnections = options.maxConnections ?? 64;
  const callers = new WeakMap<Socket, Caller>();
  server.on("connection", (socket) => callers.set(socket, callerOf(socket, options)));
  const upgraded = new ConnectionSet(Number.POSITIVE_INFINITY);
  const onRequest = (request: IncomingMessage, response: ServerResponse, upgrade?: Upgrade): void => {
    const caller = callers.get(request.socket) ?? { kind: "refused", reason: "the connection is not known", loopback: true };
    if (caller.kind === "local") {
      if (upgrade) upgraded.add(upgrade.socket);
      options.http(request, response, caller, upgrade);
      return;
    }
    const reason = caller.kind === "refused" ? caller.reason : "the caller is not known";
    log.warn("call on the control socket refused", { path, reason });
    sendError(response, new CoralError({ code: "not-permitted", message: `Cannot use the socket "${path}": ${reason}` }), {
      closeConnection: true,
    });
  };
  server.on("request", (request, response) => onRequest(request, response));
  acceptUpgrades(server, onRequest);

  await listenOnPath(server, path);
  try {
    await chmod(path, 0o600);
    // lchown: a symbolic link put in our place must not hand the file behind it to the user.
    if (owner) await lchown(path, owner.uid, owner.gid);
  } catch (error) {
    server.close();
    throw new CoralError({ code: "unavailable", message: `Cannot protect the socket "${path}": ${String(error)}`, cause: error });
  }
  server.on("error", (error) => log.error("control socket failed", { path, error }));

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= drain(server, upgraded, options.drainTimeoutMs ?? 2_000);
    return closing;
  };
  return { path, close, [Symbol.asyncDispose]: close };
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

/** Who starts two daemons at the same instant is stopped by their lock file, not here: between look and removal there is a gap. */
async function removeStale(path: string, log: Logger): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) {
      throw new CoralError({
        code: "already-exists",
        message: `Cannot listen on the socket "${path}": there is a file of that name that is no socket`,
      });
    }
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  if (await isAnswered(path)) {
    throw new CoralError({
      code: "already-exists",
      message: `Cannot listen on the socket "${path}": a running daemon answers on it`,
      details: { path },
    });
  }
  log.info("removing the socket of a daemon that is gone", { path });
  await unlink(path);
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (error) => {
      const code = codeOf(error);
      if (code === "ECONNREFUSED" || code === "ENOENT") resolve(false);
      // EAGAIN: its queue of waiting connections is full, so somebody is there.
      else if (code === "EAGAIN") resolve(true);
      else reject(new CoralError({ code: "unavailable", message: `Cannot look at the socket "${path}": ${error.message}`, cause: error }));
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

function callerOf(socket: Socket, options: ControlServerOptions): Caller {
  const ownerUid = options.ownerUid ?? options.owner?.uid ?? process.getuid?.() ?? 0;
  const refused = (reason: string): Caller => ({ kind: "refused", reason, loopback: true });
  if (!options.peerCredentials) return { kind: "local", uid: ownerUid, pid: 0 };
  const fd = fdOf(socket);
  if (fd === undefined) return refused("the caller hung up");
  try {
    const { uid, pid } = options.peerCredentials(fd);
    if (uid === ownerUid || uid === 0) return { kind: "local", uid, pid };
    return refused(`it belongs to uid ${ownerUid}, the caller is uid ${uid}; run the command as that user or as root`);
  } catch (error) {
    options.log.error("cannot find out who calls", { path: options.path, error });
    return refused("the system cannot tell who calls");
  }
}

async function drain(server: Server, upgraded: ConnectionSet, timeoutMs: number): Promise<void> {
  await new Promise<void>((resolve) => {
    const cut = (): void => {
      server.closeAllConnections();
      // Node has forgotten those, but waits for them.
      upgraded.destroyAll();
    };
    const timer = setTimeout(cut, timeoutMs);
    // Node removes the socket file with the server.
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
