/** Unary gRPC calls over a unix socket: what a container runtime's API needs, without a client library. */

import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from "node:http2";
import { connect as connectSocket } from "node:net";
import { CoralError, type ErrorCode } from "../../base/errors.ts";

export interface GrpcCall {
  /** `/runtime.v1.RuntimeService/Version`. */
  method: string;
  body: Uint8Array;
  timeoutMs: number;
  signal: AbortSignal;
}

export interface GrpcSocket extends Disposable {
  call(call: GrpcCall): Promise<Uint8Array>;
}

/** A node with a thousand containers needs a few megabytes. */
const maxResponseBytes = 16 * 1024 * 1024;
const headerBytes = 5;

/** Connects with the first call; the caller disposes of it. */
export function openGrpcSocket(path: string): GrpcSocket {
  let session: ClientHttp2Session | undefined;
  const open = (): ClientHttp2Session => {
    if (session && !session.destroyed) return session;
    const opened = connect("http://localhost", { createConnection: () => connectSocket(path) });
    // An error event without a listener would end the process; each call gets its own error.
    opened.on("error", () => undefined);
    session = opened;
    return opened;
  };
  return {
    call: (call) => unary(open(), path, call),
    [Symbol.dispose]: () => session?.destroy(),
  };
}

function unary(session: ClientHttp2Session, path: string, { method, body, timeoutMs, signal }: GrpcCall): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    if (limit.aborted) return reject(limit.reason);
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: method,
      "content-type": "application/grpc",
      te: "trailers",
    });
    const pieces: Buffer[] = [];
    let sizeBytes = 0;
    let head: IncomingHttpHeaders = {};
    let tail: IncomingHttpHeaders = {};
    const fail = (error: unknown): void => {
      stop();
      stream.close(constants.NGHTTP2_CANCEL);
      reject(signal.aborted ? signal.reason : socketError(path, error));
    };
    const onLimit = (): void => fail(limit.reason);
    const onSessionError = (error: Error): void => fail(error);
    const stop = (): void => {
      limit.removeEventListener("abort", onLimit);
      session.removeListener("error", onSessionError);
    };
    limit.addEventListener("abort", onLimit);
    session.once("error", onSessionError);
    stream.on("error", fail);
    stream.on("response", (headers) => {
      head = headers;
    });
    stream.on("trailers", (headers) => {
      tail = headers;
    });
    stream.on("data", (piece: Buffer) => {
      sizeBytes += piece.length;
      if (sizeBytes > maxResponseBytes)
        fail(new CoralError({ code: "exhausted", message: `the response exceeds ${maxResponseBytes} bytes` }));
      else pieces.push(piece);
    });
    stream.on("end", () => {
      stop();
      try {
        resolve(messageOf(path, Buffer.concat(pieces), { ...head, ...tail }));
      } catch (error) {
        reject(error);
      }
    });
    stream.end(frameOf(body));
  });
}

function frameOf(body: Uint8Array): Buffer {
  const frame = Buffer.alloc(headerBytes + body.length);
  frame.writeUInt32BE(body.length, 1);
  frame.set(body, headerBytes);
  return frame;
}

/** Of `grpc-status`; the others mean "try again". */
const statusCodes: Readonly<Record<string, ErrorCode>> = {
  "3": "invalid",
  "4": "timeout",
  "5": "not-found",
  "6": "already-exists",
  "7": "not-permitted",
  "12": "unsupported",
  "16": "unauthenticated",
};

function messageOf(path: string, bytes: Buffer, headers: IncomingHttpHeaders): Buffer {
  const status = headers["grpc-status"];
  if (status !== "0") {
    const reason =
      typeof headers["grpc-message"] === "string" ? decode(headers["grpc-message"]) : `not a gRPC response (HTTP ${headers[":status"]})`;
    const code = typeof status === "string" ? (statusCodes[status] ?? "unavailable") : "unsupported";
    throw new CoralError({ code, message: `Cannot query the container runtime at ${path}: ${reason.slice(0, 512)}` });
  }
  const isWhole = bytes.length >= headerBytes && bytes[0] === 0 && bytes.readUInt32BE(1) === bytes.length - headerBytes;
  if (!isWhole)
    throw new CoralError({ code: "invalid", message: `Cannot read the response of the container runtime at ${path}: not a gRPC message` });
  return bytes.subarray(headerBytes);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not percent-encoded: use it unchanged.
    return text;
  }
}

/** The error for a socket that cannot be used. */
export function socketError(path: string, error: unknown): CoralError {
  if (error instanceof CoralError) return error;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (error instanceof DOMException && error.name === "TimeoutError")
    return new CoralError({ code: "timeout", message: `Cannot query the container runtime at ${path}: it does not respond`, cause: error });
  if (code === "EACCES" || code === "EPERM")
    return new CoralError({
      code: "not-permitted",
      message: `Cannot query the container runtime at ${path}: permission denied`,
      cause: error,
    });
  if (code === "ENOENT")
    return new CoralError({ code: "not-found", message: `Cannot query the container runtime: ${path} does not exist`, cause: error });
  const why = error instanceof Error ? error.message : String(error);
  return new CoralError({ code: "unavailable", message: `Cannot query the container runtime at ${path}: ${why}`, cause: error });
}
