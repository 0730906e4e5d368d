/** JSON over HTTP/1.1 to a daemon: its unix socket, or the colony's TLS port. Light on purpose: every CLI command loads it. */

import { CoralError } from "../base/errors.ts";

export type ControlTarget =
  | { kind: "unix"; path: string }
  /** `endpoint` is `host:port`; `token` is the whole `coral_user_…` text, sent as Bearer. */
  | { kind: "https"; endpoint: string; caFingerprint: string; token: string };

export interface JsonRequest {
  target: ControlTarget;
  method: "GET" | "POST" | "DELETE";
  /** With its query. */
  path: string;
  /** Sent as JSON when given. */
  body?: unknown;
  /** For the whole exchange. Default 30 s. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** Default 64 MiB. */
  maxReplyBytes?: number;
}

/**
 * The parsed reply. A failure reply becomes the CoralError that the daemon threw; a daemon that is not there becomes `unavailable` with
 * `details.reason` "not-running" (no socket, or nobody listens on it), so that the caller can say how to start it.
 */
export function requestJson(_request: JsonRequest): Promise<unknown> {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** As requestJson, for text such as `/metrics`. */
export function requestText(_request: JsonRequest): Promise<string> {
  throw new CoralError({ code: "internal", message: "not built" });
}
