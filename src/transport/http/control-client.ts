/** JSON over HTTP/1.1 to a daemon: its unix socket, or the colony's TLS port. Kept small, because every CLI command loads it. */

import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { CoralError, type ErrorCode, isErrorCode } from "../../base/errors.ts";

export type ControlTarget =
  | { kind: "unix"; path: string }
  /** `endpoint` is `host:port`; `token` is the whole `coral_user_…` text, sent as Bearer. */
  | { kind: "https"; endpoint: string; caFingerprint: string; token: string; colonyId?: string };

/** One request to a daemon. Each uses its own connection. */
export interface RawRequest {
  target: ControlTarget;
  method: "GET" | "POST" | "DELETE";
  /** With its query. */
  path: string;
  headers?: Record<string, string>;
  /** Which program sends the request; used by the audit and to limit what models may call. Default: the CLI. */
  client?: "cli" | "mcp";
  body?: string;
  /** Until the headers of the reply arrive. Default 30 s. */
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
}

/** A request with a JSON body and a JSON or text reply. */
export interface JsonRequest extends Omit<RawRequest, "body" | "headers"> {
  /** Sent as JSON when given. */
  body?: unknown;
  /** Default 64 MiB. */
  maxReplyBytes?: number;
}

/**
 * Returns the parsed reply. A failure reply becomes the CoralError that the daemon threw. A daemon that is not running (no socket, or nothing listens
 * on it) becomes `unavailable` with `details.reason` "not-running", so that the caller can name the command that starts it.
 */
export async function requestJson(request: JsonRequest): Promise<unknown> {
  const text = await requestText(request);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CoralError({
      code: "internal",
      message: `Cannot read the reply of ${nameOfTarget(request.target)}: not valid JSON`,
      cause: error,
    });
  }
}

/** Like requestJson, for text such as `/metrics`. `timeoutMs` covers the whole exchange. */
export async function requestText(request: JsonRequest): Promise<string> {
  const { target, timeoutMs = 30_000, maxReplyBytes = 64 * 1024 * 1024 } = request;
  const deadline = AbortSignal.timeout(timeoutMs);
  const signal = request.signal ? AbortSignal.any([request.signal, deadline]) : deadline;
  try {
    const reply = await requestRaw(rawRequest({ ...request, timeoutMs, signal }));
    const text = await readAll(reply, target, maxReplyBytes);
    const status = reply.statusCode ?? 0;
    if (status >= 200 && status < 300) return text;
    throw reviveError(target, status, text);
  } catch (error) {
    if (deadline.aborted) throw timedOut(target, timeoutMs, error);
    throw error;
  }
}

/**
 * A reply that streams one JSON value per line. It may be endless: `timeoutMs` covers the time to the headers only. A failure reply, and a line of the
 * form `{ "kind": "error", "error": … }`, become the CoralError that the daemon threw.
 */
export async function* requestLines(request: JsonRequest): AsyncGenerator<unknown> {
  const { target, maxReplyBytes = 16 * 1024 * 1024 } = request;
  const reply = await openStream(request);
  try {
    let rest = "";
    for await (const chunk of reply.setEncoding("utf8") as AsyncIterable<string>) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > maxReplyBytes)
        throw new CoralError({ code: "exhausted", message: `Cannot read the reply of ${nameOfTarget(target)}: a line is too long` });
      for (const line of lines) if (line !== "") yield valueOf(line, target);
    }
  } catch (error) {
    throw brokenStream(request, error);
  } finally {
    // When the reader stops, disconnect: that ends the stream at the daemon.
    reply.destroy();
  }
}

/** Streams a reply as bytes. A failure reply becomes the CoralError that the daemon threw. `timeoutMs` covers the time to the headers only. */
export async function* requestBytes(request: Omit<JsonRequest, "maxReplyBytes">): AsyncGenerator<Uint8Array> {
  const reply = await openStream(request);
  try {
    yield* reply as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw brokenStream(request, error);
  } finally {
    // When the reader stops, disconnect: that ends the stream at the daemon.
    reply.destroy();
  }
}

/** The reply of a stream that the daemon accepted. */
async function openStream(request: JsonRequest): Promise<IncomingMessage> {
  const reply = await requestRaw(rawRequest(request));
  const status = reply.statusCode ?? 0;
  if (status >= 200 && status < 300) return reply;
  throw reviveError(request.target, status, await readAll(reply, request.target, maxRefusalBytes));
}

function brokenStream({ target, signal }: JsonRequest, error: unknown): unknown {
  if (signal?.aborted) return cancelled(target, signal);
  if (error instanceof CoralError) return error;
  return new CoralError({
    code: "unavailable",
    message: `Cannot read the reply of ${nameOfTarget(target)}: the connection was lost`,
    cause: error,
  });
}

function rawRequest({ body, maxReplyBytes: _limit, ...request }: JsonRequest): RawRequest {
  return body === undefined ? request : { ...request, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

function valueOf(line: string, target: ControlTarget): unknown {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new CoralError({
      code: "internal",
      message: `Cannot read the reply of ${nameOfTarget(target)}: a line is not valid JSON`,
      cause: error,
    });
  }
  if (typeof value === "object" && value !== null && "kind" in value && value.kind === "error") throw reviveError(target, 500, line);
  return value;
}

/** The raw reply with any status; the caller reads or destroys it. For streams, such as MCP. */
export async function requestRaw(request: RawRequest): Promise<IncomingMessage> {
  const { target, method, path, body, headers = {}, client = "cli", timeoutMs = 30_000, signal } = request;
  if (signal?.aborted) throw cancelled(target, signal);
  const connection = await connectionTo(target, timeoutMs, signal);
  return new Promise((resolve, reject) => {
    const bytes = body === undefined ? undefined : Buffer.from(body);
    const outgoing = httpRequest({
      ...connection,
      method,
      path,
      headers: {
        host: target.kind === "unix" ? "localhost" : target.endpoint,
        "coral-client": client,
        ...(target.kind === "https" ? { authorization: `Bearer ${target.token}` } : {}),
        ...headers,
        ...(bytes ? { "content-length": bytes.length } : {}),
      },
      ...(signal ? { signal } : {}),
    });
    const timer = setTimeout(() => outgoing.destroy(timedOut(target, timeoutMs)), timeoutMs);
    outgoing.once("response", (reply) => {
      clearTimeout(timer);
      // Readers of an aborted reply get the error; without a reader it must not end the process.
      reply.on("error", () => undefined);
      resolve(reply);
    });
    // May follow the reply: a daemon may reply and close before it has read the whole request.
    outgoing.on("error", (error) => {
      clearTimeout(timer);
      reject(signal?.aborted ? cancelled(target, signal) : connectionError(target, error));
    });
    outgoing.end(bytes);
  });
}

/** Limit of an error reply to a stream request. */
const maxRefusalBytes = 1024 * 1024;

async function connectionTo(target: ControlTarget, timeoutMs: number, signal: AbortSignal | undefined): Promise<RequestOptions> {
  if (target.kind === "unix") return { socketPath: target.path, agent: false };
  // Loaded on demand: the local CLI needs no TLS.
  const { dialTls } = await import("../trust/dial-tls.ts");
  const { endpoint, caFingerprint, colonyId } = target;
  const socket = await dialTls({ endpoint, trust: { kind: "fingerprint", caFingerprint, colonyId }, alpn: "http/1.1", timeoutMs, signal });
  return { createConnection: () => socket };
}

/** Rejects with `exhausted` above `maxBytes`, and with `unavailable` if the connection closes early. */
function readAll(reply: IncomingMessage, target: ControlTarget, maxBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    reply.on("data", (chunk: Buffer) => {
      sizeBytes += chunk.length;
      chunks.push(chunk);
      if (sizeBytes <= maxBytes) return;
      reply.destroy();
      reject(
        new CoralError({
          code: "exhausted",
          message: `Cannot read the reply of ${nameOfTarget(target)}: it is larger than ${maxBytes} bytes`,
        }),
      );
    });
    reply.once("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
    reply.once("close", () => {
      if (!reply.complete)
        reject(
          new CoralError({ code: "unavailable", message: `Cannot read the reply of ${nameOfTarget(target)}: the connection was lost` }),
        );
    });
  });
}

const codesByStatus: Record<number, ErrorCode> = {
  400: "invalid",
  401: "unauthenticated",
  403: "not-permitted",
  404: "not-found",
  408: "timeout",
  409: "already-exists",
  413: "exhausted",
  429: "exhausted",
  501: "unsupported",
  503: "unavailable",
  504: "timeout",
};

function reviveError(target: ControlTarget, status: number, text: string): CoralError {
  const { code, message, details } = errorIn(text);
  if (isErrorCode(code) && typeof message === "string") {
    return new CoralError({ code, message, details: typeof details === "object" && details !== null ? { ...details } : {} });
  }
  // `/readyz`, or a server that is not a daemon.
  return new CoralError({
    code: codesByStatus[status] ?? "internal",
    message: `Cannot get a reply from ${nameOfTarget(target)}: HTTP status ${status}`,
    details: { status, text: text.slice(0, 1_000) },
  });
}

function errorIn(text: string): { code?: unknown; message?: unknown; details?: unknown } {
  try {
    const value = JSON.parse(text) as { error?: unknown } | null;
    return typeof value?.error === "object" && value.error !== null ? value.error : {};
  } catch {
    // Not JSON, so not from a daemon.
    return {};
  }
}

/** Why a daemon cannot be reached; `details.reason` is "not-running" when nothing listens there. */
export function connectionError(target: ControlTarget, failure: unknown): CoralError {
  if (failure instanceof CoralError) return failure;
  const error = failure instanceof Error ? failure : new Error(String(failure));
  const code = "code" in error ? String(error.code) : "";
  if (code === "ENOENT" || code === "ECONNREFUSED") {
    return new CoralError({
      code: "unavailable",
      message: `Cannot reach ${nameOfTarget(target)}: nothing is listening there`,
      cause: error,
      details: { reason: "not-running" },
    });
  }
  if (code === "EACCES" || code === "EPERM") {
    return new CoralError({
      code: "not-permitted",
      message: `Cannot use ${nameOfTarget(target)}: it belongs to another user`,
      cause: error,
    });
  }
  return new CoralError({
    code: "unavailable",
    message: `Cannot reach ${nameOfTarget(target)}: ${error.message}`,
    cause: error,
    details: { reason: code },
  });
}

/** The error for a daemon that did not reply in time. */
export function timedOut(target: ControlTarget, timeoutMs: number, cause?: unknown): CoralError {
  return new CoralError({
    code: "timeout",
    message: `Cannot get a reply from ${nameOfTarget(target)}: none within ${timeoutMs} ms`,
    cause,
  });
}

/** The error for a request whose signal was aborted. */
export function cancelled(target: ControlTarget, signal: AbortSignal): CoralError {
  return new CoralError({ code: "cancelled", message: `Cannot get a reply from ${nameOfTarget(target)}: cancelled`, cause: signal.reason });
}

/** The daemon, as errors name it. Never contains the token. */
export function nameOfTarget(target: ControlTarget): string {
  return target.kind === "unix" ? `the daemon at "${target.path}"` : `the colony at "${target.endpoint}"`;
}
