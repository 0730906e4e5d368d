/** A daemon's unix socket: HTTP/1.1 + JSON for the local CLI, only for the owner of the daemon and root. */

import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { HttpHandler } from "./colony-server.ts";
import type { FileOwner } from "./private-file.ts";

export interface PeerCredentials {
  pid: number;
  uid: number;
  gid: number;
}

export interface ControlServerOptions {
  /** At the most 107 bytes: the kernel's limit. */
  path: string;
  /** The uid that may call, besides root. Default: the process's own. */
  ownerUid?: number;
  /** The socket file is given to it (sudo). */
  owner?: FileOwner;
  /** SO_PEERCRED of a connection; undefined where the platform has none: then only the file's mode protects. */
  peerCredentials: ((fd: number) => PeerCredentials) | undefined;
  http: HttpHandler;
  log: Logger;
  /** Connections at a time; default 64. */
  maxConnections?: number;
  /** Default 10 s for headers, 30 s for the whole request. */
  headersTimeoutMs?: number;
  requestTimeoutMs?: number;
  drainTimeoutMs?: number;
}

export interface ControlServer extends AsyncDisposable {
  path: string;
  /** Lets requests under way finish (2 s), cuts the rest, removes the socket file. Idempotent. */
  close(): Promise<void>;
}

/** Removes a socket file that nobody answers on; throws `already-exists` when a live daemon does. */
export function startControlServer(_options: ControlServerOptions): Promise<ControlServer> {
  throw new CoralError({ code: "internal", message: "not built" });
}
