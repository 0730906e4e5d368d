/**
 * gRPC without TLS, as OTLP uses it: unary calls of three methods on HTTP/2. Bodies are limited individually and in total, and a client that
 * is too slow is disconnected.
 */

import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { ByteBudget } from "../../base/byte-budget.ts";
import type { Logger } from "../../base/log.ts";
import { releaseBytes } from "../../base/release-bytes.ts";
import { ConnectionSet, listen } from "../../transport/index.ts";
import {
  encodeAccepted,
  encodeStatus,
  grpcStatus,
  grpcStatusOf,
  isOtlpEncoding,
  type OtlpAuthorize,
  type OtlpEncoding,
  type OtlpExport,
  type OtlpHandler,
  type OtlpServerReply,
  type OtlpSignalName,
  otlpEncodings,
  retryAfterMsOf,
} from "./otlp-messages.ts";

/** Limits of both servers. `maxStreams` applies to gRPC only. */
export interface OtlpLimits {
  /** Limit of one request body, as sent. */
  maxBodyBytes: number;
  maxConnections: number;
  /** Requests of one connection at the same time. */
  maxStreams: number;
  /** A body must arrive within this. */
  bodyTimeoutMs: number;
  /** A connection without requests is closed after this. */
  idleTimeoutMs: number;
}

export interface OtlpServerOptions {
  host: string;
  /** 0 picks a free one. */
  port: number;
  /** How many of the following ports to try when the port is in use. */
  portSearch: number;
  handler: OtlpHandler;
  /** Absent: every client that can reach the port may send. */
  authorize?: OtlpAuthorize;
  limits: OtlpLimits;
  /** For bodies from their arrival to the reply. */
  budget: ByteBudget;
  log: Logger;
}

/** A listener. Disposing it stops accepting, waits for replies in progress, and then closes what is left. */
export interface OtlpServer extends AsyncDisposable {
  host: string;
  port: number;
  readonly connections: number;
}

const methods: Readonly<Record<string, OtlpSignalName>> = {
  "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
  "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
  "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
};
/** Prefix of each message: a flag and a length. */
const prefixBytes = 5;
/** How long requests in progress may take on shutdown. */
const drainTimeoutMs = 2_000;
/** HTTP/2 flow control: bytes that a client may send before the server has read them, per call. */
const streamWindowBytes = 512 * 1024;
/** The same for all calls of a connection. */
const sessionWindowBytes = 2 * 1024 * 1024;
/** Sent as RetryInfo when the request budget is used up. */
const busyRetryMs = 1_000;

/** Rejects if no port can be opened. */
export async function startOtlpGrpcServer(options: OtlpServerOptions): Promise<OtlpServer> {
  const { host, limits, log } = options;
  const server = createServer({
    settings: {
      maxConcurrentStreams: limits.maxStreams,
      initialWindowSize: streamWindowBytes,
      maxHeaderListSize: 16 * 1024,
      enablePush: false,
    },
    maxHeaderListPairs: 64,
    maxSessionInvalidFrames: 100,
  });
  const connections = new ConnectionSet(limits.maxConnections);
  const sessions = new Set<ServerHttp2Session>();
  const quiet = limitConnections(server, connections);
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.setLocalWindowSize(sessionWindowBytes);
    session.setTimeout(limits.idleTimeoutMs, () => session.close());
    // A client without HTTP/2, or one that disconnects, is not a server error.
    session.on("error", () => session.destroy());
  });
  server.on("stream", (stream, headers) => {
    const key = stream.session ? peerOf(stream.session.socket) : "";
    const socket = quiet.get(key);
    if (socket) {
      quiet.delete(key);
      stream.once("close", () => {
        if (!socket.destroyed) quiet.set(key, socket);
      });
    }
    new Call(stream, headers, options).begin();
  });
  server.on("sessionError", (error) => log.debug("a gRPC connection failed", { error }));
  const port = await listen(server, host, options.port, options.portSearch, "otlp.grpc.listen");
  server.on("error", (error) => log.error("cannot accept connections", { error }));
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= new Promise((resolve) => {
      const timer = setTimeout(() => connections.destroyAll(), drainTimeoutMs);
      server.close(() => {
        clearTimeout(timer);
        resolve();
      });
      for (const session of sessions) session.close();
    });
    return closing;
  };
  return {
    host,
    port,
    get connections() {
      return connections.size;
    },
    [Symbol.asyncDispose]: close,
  };
}

/** Drops connections above the limit. Returns the connections without a call, by peer, oldest first: they are closed to accept new ones. */
function limitConnections(server: Http2Server, connections: ConnectionSet): Map<string, Socket> {
  const quiet = new Map<string, Socket>();
  server.on("connection", (socket) => {
    // Close one that has not sent the HTTP/2 preface or has no calls.
    const [oldest] = quiet;
    if (connections.isFull && oldest) {
      quiet.delete(oldest[0]);
      connections.drop(oldest[1]);
    }
    if (connections.isFull) {
      socket.destroy();
      return;
    }
    connections.add(socket);
    const key = peerOf(socket);
    quiet.set(key, socket);
    socket.once("close", () => quiet.delete(key));
  });
  return quiet;
}

/** One call, from its headers to its trailers. */
class Call {
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #options: OtlpServerOptions;
  readonly #chunks: Buffer[] = [];
  #sizeBytes = 0;
  /** Of the message, once its prefix has arrived. */
  #expectedBytes = -1;
  #isCompressed = false;
  #takenBytes = 0;
  #hasReplied = false;
  #isHandled = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, options: OtlpServerOptions) {
    this.#stream = stream;
    this.#headers = headers;
    this.#options = options;
  }

  /** Checks headers before any of the body is read, so that a refused call costs no memory. */
  begin(): void {
    const stream = this.#stream;
    // Resets and broken connections end here; "close" always follows.
    stream.on("error", () => {});
    stream.once("close", () => this.#closed());
    const contentType = this.#headers["content-type"] ?? "";
    if (this.#headers[":method"] !== "POST" || !/^application\/grpc(?:\+proto)?(?:;|$)/i.test(contentType)) {
      this.#hasReplied = true;
      stream.respond({ ":status": 415 }, { endStream: true });
      this.#hangUp();
      return;
    }
    const signal = methods[this.#headers[":path"] ?? ""];
    const encoding = String(this.#headers["grpc-encoding"] ?? "identity");
    if (this.#options.authorize?.(this.#headers.authorization) === false) {
      this.#fail(grpcStatus.unauthenticated, "Cannot accept the request: send the token in the authorization header");
    } else if (signal === undefined) this.#fail(grpcStatus.unimplemented, `Cannot call "${this.#headers[":path"]}": no such method`);
    else if (!isOtlpEncoding(encoding)) {
      this.#fail(
        grpcStatus.unimplemented,
        `Cannot read the request: unsupported encoding "${encoding.slice(0, 40)}"; use ${otlpEncodings.join(", ")}`,
      );
    } else this.#read(signal, encoding);
  }

  #read(signal: OtlpSignalName, encoding: OtlpEncoding): void {
    const { bodyTimeoutMs } = this.#options.limits;
    const deadlineMs = timeoutMsOf(this.#headers["grpc-timeout"]);
    this.#timer = setTimeout(
      () => this.#fail(grpcStatus.deadlineExceeded, "Cannot accept the request: it did not arrive in time"),
      Math.min(bodyTimeoutMs, deadlineMs),
    );
    this.#stream.on("data", (chunk: Buffer) => this.#data(chunk));
    this.#stream.on("end", () => this.#end(signal, encoding, deadlineMs));
  }

  #data(chunk: Buffer): void {
    if (this.#hasReplied) return;
    this.#chunks.push(chunk);
    this.#sizeBytes += chunk.length;
    if (this.#expectedBytes < 0 && this.#sizeBytes >= prefixBytes) this.#prefix();
    if (this.#expectedBytes >= 0 && this.#sizeBytes > this.#expectedBytes + prefixBytes) {
      this.#fail(grpcStatus.unimplemented, "Cannot accept the request: the method accepts one message only");
    }
  }

  #prefix(): void {
    const { limits, budget } = this.#options;
    const [first] = this.#chunks;
    const prefix = first !== undefined && first.length >= prefixBytes ? first : Buffer.concat(this.#chunks);
    const flag = prefix.readUInt8(0);
    const length = prefix.readUInt32BE(1);
    if (flag > 1) {
      this.#fail(grpcStatus.internal, "Cannot read the request: its frame is malformed");
    } else if (length > limits.maxBodyBytes) {
      this.#fail(
        grpcStatus.resourceExhausted,
        `Cannot accept the request: ${length} bytes exceed the limit of ${limits.maxBodyBytes}; send smaller batches`,
      );
    } else if (!budget.take(length)) {
      this.#fail(grpcStatus.resourceExhausted, "Cannot accept the request now: too many request bytes in flight", busyRetryMs);
    } else {
      this.#takenBytes = length;
      this.#expectedBytes = length;
      this.#isCompressed = flag === 1;
    }
  }

  #end(signal: OtlpSignalName, encoding: OtlpEncoding, deadlineMs: number): void {
    if (this.#hasReplied) return;
    clearTimeout(this.#timer);
    if (this.#expectedBytes < 0 || this.#sizeBytes < this.#expectedBytes + prefixBytes) {
      this.#fail(grpcStatus.internal, "Cannot read the request: truncated message");
      return;
    }
    if (this.#isCompressed && encoding === "identity") {
      this.#fail(grpcStatus.internal, "Cannot read the request: it is compressed, but grpc-encoding is missing");
      return;
    }
    const [first] = this.#chunks;
    const whole = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    this.#chunks.length = 0;
    this.#timer = Number.isFinite(deadlineMs)
      ? setTimeout(() => this.#fail(grpcStatus.deadlineExceeded, "Cannot reply before the deadline"), deadlineMs)
      : undefined;
    const request: OtlpExport = {
      signal,
      format: "protobuf",
      encoding: this.#isCompressed ? encoding : "identity",
      body: whole.subarray(prefixBytes),
    };
    this.#isHandled = true;
    void this.#options.handler(request).then((reply) => {
      releaseBytes(whole);
      this.#giveBack();
      this.#reply(reply);
    });
  }

  #reply(reply: OtlpServerReply): void {
    clearTimeout(this.#timer);
    if (reply.kind === "refused") {
      this.#fail(grpcStatusOf(reply), reply.message, retryAfterMsOf(reply));
      return;
    }
    if (this.#hasReplied || this.#stream.destroyed) return;
    this.#hasReplied = true;
    const message = encodeAccepted(reply);
    const frame = Buffer.alloc(prefixBytes + message.length);
    frame.writeUInt32BE(message.length, 1);
    message.copy(frame, prefixBytes);
    this.#stream.respond({ ":status": 200, "content-type": "application/grpc+proto" }, { waitForTrailers: true });
    this.#stream.once("wantTrailers", () => this.#stream.sendTrailers({ "grpc-status": "0" }));
    this.#stream.end(frame);
  }

  #fail(status: number, message: string, retryAfterMs?: number): void {
    clearTimeout(this.#timer);
    if (this.#hasReplied || this.#stream.destroyed) return;
    this.#hasReplied = true;
    this.#chunks.length = 0;
    const headers: OutgoingHttpHeaders = {
      ":status": 200,
      "content-type": "application/grpc+proto",
      "grpc-status": String(status),
      "grpc-message": percentEncoded(message),
      "grpc-accept-encoding": otlpEncodings.join(","),
    };
    if (retryAfterMs !== undefined) {
      headers["grpc-status-details-bin"] = encodeStatus(status, message, retryAfterMs).toString("base64").replace(/=+$/, "");
    }
    this.#stream.respond(headers, { endStream: true });
    this.#hangUp();
  }

  /** The reply was sent: discards further data of the client. */
  #hangUp(): void {
    if (!this.#stream.readableEnded) this.#stream.close(constants.NGHTTP2_NO_ERROR);
  }

  #closed(): void {
    clearTimeout(this.#timer);
    // The body counts towards the budget while the handler uses it.
    if (!this.#isHandled) this.#giveBack();
    this.#hasReplied = true;
    this.#chunks.length = 0;
  }

  #giveBack(): void {
    this.#options.budget.give(this.#takenBytes);
    this.#takenBytes = 0;
  }
}

/** `100m` → 100. Infinity without a valid timeout. */
export function timeoutMsOf(header: string | string[] | undefined): number {
  const match = /^(\d{1,8})([HMSmun])$/.exec(String(header ?? ""));
  if (match === null) return Number.POSITIVE_INFINITY;
  const unitMs = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 0.001, n: 0.000_001 }[match[2] as "H"];
  // Timers are limited to 31 bits of milliseconds.
  const ms = Number(match[1]) * unitMs;
  return ms >= 2 ** 31 ? Number.POSITIVE_INFINITY : Math.max(1, Math.ceil(ms));
}

function percentEncoded(message: string): string {
  return encodeURIComponent(message).replace(/%(?:20|22|2C|3A|3B|2F|28|29)/g, (escape) => decodeURIComponent(escape));
}

/** Identifies a connection by its peer, because a session's socket is another object than the server's. */
function peerOf({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): string {
  return `${remoteAddress ?? ""} ${remotePort ?? ""}`;
}
