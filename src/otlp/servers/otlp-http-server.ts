/** OTLP on HTTP/1.1: POST of protobuf or JSON to /v1/traces, /v1/metrics and /v1/logs. */

import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from "node:http";
import { releaseBytes } from "../../base/release-bytes.ts";
import { limitConnections, listen } from "../../transport/index.ts";
import type { OtlpServer, OtlpServerOptions } from "./otlp-grpc-server.ts";
import {
  acceptedJson,
  encodeAccepted,
  encodeStatus,
  grpcStatus,
  grpcStatusOf,
  httpStatusOfRefusal,
  isOtlpEncoding,
  type OtlpEncoding,
  type OtlpExport,
  type OtlpServerReply,
  type OtlpSignalName,
  otlpEncodings,
  retryAfterMsOf,
} from "./otlp-messages.ts";

const paths: Readonly<Record<string, OtlpSignalName>> = { "/v1/traces": "traces", "/v1/logs": "logs", "/v1/metrics": "metrics" };
const protobufType = "application/x-protobuf";
const jsonType = "application/json";
/** Sent as `retry-after` when the request budget is used up. */
const busyRetryMs = 1_000;
/** How long the rest of a refused request is read. */
const unreadMaxMs = 5_000;

/** Rejects if no port can be opened. */
export async function startOtlpHttpServer(options: OtlpServerOptions): Promise<OtlpServer> {
  const { host, limits, log } = options;
  const headersTimeout = Math.min(10_000, limits.bodyTimeoutMs);
  const server = createServer({
    maxHeaderSize: 16 * 1024,
    headersTimeout,
    requestTimeout: limits.bodyTimeoutMs,
    keepAliveTimeout: limits.idleTimeoutMs,
    // Each check wakes the process, even without connections.
    connectionsCheckingInterval: headersTimeout / 2,
  });
  limitConnections(server, limits.maxConnections);
  server.on("request", (request, response) => new Exchange(request, response, options).begin());
  // Expect: 100-continue. The client may send its body only if the request would be accepted.
  server.on("checkContinue", (request, response) => new Exchange(request, response, options).begin(() => response.writeContinue()));
  const port = await listen(server, host, options.port, options.portSearch, "otlp.http.listen");
  server.on("error", (error) => log.error("cannot accept connections", { error }));
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= new Promise((resolve) => {
      const timer = setTimeout(() => server.closeAllConnections(), 2_000);
      server.close(() => {
        clearTimeout(timer);
        resolve();
      });
      server.closeIdleConnections();
    });
    return closing;
  };
  let connections = 0;
  server.on("connection", (socket) => {
    connections++;
    socket.once("close", () => connections--);
  });
  return {
    host,
    port,
    get connections() {
      return connections;
    },
    [Symbol.asyncDispose]: close,
  };
}

/** One request with its reply. */
class Exchange {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #options: OtlpServerOptions;
  readonly #chunks: Buffer[] = [];
  #sizeBytes = 0;
  #takenBytes = 0;
  #isJson = false;
  #isOver = false;

  constructor(request: IncomingMessage, response: ServerResponse, options: OtlpServerOptions) {
    this.#request = request;
    this.#response = response;
    this.#options = options;
  }

  /** Checks headers before the body is read. */
  begin(sendContinue?: () => void): void {
    const { headers, method, url = "" } = this.#request;
    const type = (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase();
    this.#isJson = type === jsonType;
    const signal = paths[url.split("?", 1)[0] ?? ""];
    const encoding = (headers["content-encoding"] ?? "identity").trim().toLowerCase() || "identity";
    const length = headers["content-length"] === undefined ? undefined : Number(headers["content-length"]);
    const { maxBodyBytes } = this.#options.limits;
    if (signal === undefined)
      this.#fail(404, grpcStatus.unimplemented, `Cannot find "${url.slice(0, 100)}": use /v1/traces, /v1/logs or /v1/metrics`);
    else if (method !== "POST") this.#fail(405, grpcStatus.unimplemented, `Cannot ${method}: only POST is supported`, { allow: "POST" });
    else if (this.#options.authorize?.(headers.authorization) === false) {
      const message = "Cannot accept the request: send the token in the authorization header";
      this.#fail(401, grpcStatus.unauthenticated, message, { "www-authenticate": "Bearer" });
    }
    // Web pages must not use this port, under any host name.
    else if (headers.origin !== undefined) this.#fail(403, grpcStatus.invalidArgument, "Cannot accept requests from web pages");
    else if (type !== protobufType && !this.#isJson) {
      this.#fail(
        415,
        grpcStatus.invalidArgument,
        `Cannot read the request: unsupported content type "${type?.slice(0, 100)}"; use ${protobufType} or ${jsonType}`,
      );
    } else if (!isOtlpEncoding(encoding)) {
      this.#fail(
        415,
        grpcStatus.invalidArgument,
        `Cannot read the request: unsupported encoding "${encoding.slice(0, 40)}"; use ${otlpEncodings.join(", ")}`,
        {
          "accept-encoding": otlpEncodings.join(", "),
        },
      );
    } else if (length !== undefined && length > maxBodyBytes) this.#tooLarge();
    else {
      sendContinue?.();
      this.#read(signal, encoding);
    }
  }

  #read(signal: OtlpSignalName, encoding: OtlpEncoding): void {
    const request = this.#request;
    request.on("data", (chunk: Buffer) => this.#data(chunk));
    request.on("end", () => this.#end(signal, encoding));
    // A client that disconnected, or was disconnected for being slow.
    request.on("error", () => this.#abandon());
    request.on("close", () => {
      if (!request.complete) this.#abandon();
    });
  }

  #data(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#sizeBytes += chunk.length;
    if (this.#sizeBytes > this.#options.limits.maxBodyBytes) this.#tooLarge();
    else if (this.#options.budget.take(chunk.length)) {
      this.#takenBytes += chunk.length;
      this.#chunks.push(chunk);
    } else {
      const message = "Cannot accept the request now: too many request bytes in flight";
      this.#refuse({ kind: "refused", reason: "busy", message, retryAfterMs: busyRetryMs });
    }
  }

  #end(signal: OtlpSignalName, encoding: OtlpEncoding): void {
    if (this.#isOver) return;
    const body = this.#joined();
    const request: OtlpExport = { signal, format: this.#isJson ? "json" : "protobuf", encoding, body };
    void this.#options.handler(request).then((reply) => {
      releaseBytes(body);
      this.#giveBack();
      if (reply.kind === "refused") this.#refuse(reply);
      else this.#send(200, this.#isJson ? Buffer.from(acceptedJson(signal, reply)) : encodeAccepted(reply));
    });
  }

  #joined(): Buffer {
    const [first] = this.#chunks;
    const body = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    if (body !== first) this.#chunks.forEach(releaseBytes);
    this.#chunks.length = 0;
    return body;
  }

  #abandon(): void {
    this.#isOver = true;
    this.#chunks.length = 0;
    this.#giveBack();
  }

  #giveBack(): void {
    this.#options.budget.give(this.#takenBytes);
    this.#takenBytes = 0;
  }

  #tooLarge(): void {
    const { maxBodyBytes } = this.#options.limits;
    const message = `Cannot accept the request: its body is larger than ${maxBodyBytes} bytes; send smaller batches`;
    this.#refuse({ kind: "refused", reason: "too-large", message });
  }

  #refuse(reply: Extract<OtlpServerReply, { kind: "refused" }>): void {
    const retryAfterMs = retryAfterMsOf(reply);
    const headers = retryAfterMs === undefined ? {} : { "retry-after": String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) };
    this.#fail(httpStatusOfRefusal(reply), grpcStatusOf(reply), reply.message, headers);
  }

  #fail(status: number, code: number, message: string, headers: Record<string, string> = {}): void {
    const body = this.#isJson ? Buffer.from(JSON.stringify({ code, message })) : encodeStatus(code, message);
    this.#send(status, body, headers);
  }

  #send(status: number, body: Buffer, headers: Record<string, string> = {}): void {
    if (this.#isOver) return;
    this.#abandon();
    // Unread body bytes would be parsed as the next request.
    const isUnread = !this.#request.complete;
    const all: OutgoingHttpHeaders = { "content-type": this.#isJson ? jsonType : protobufType, "content-length": body.length, ...headers };
    if (isUnread) all["connection"] = "close";
    this.#response.writeHead(status, all);
    if (isUnread) {
      this.#replyUnread(body);
      return;
    }
    // Most replies are empty: headers alone need a single write.
    if (body.length > 0) this.#response.end(body);
    else this.#response.end();
  }

  /**
   * The reply is complete without `end()`, which would close the connection while the sender still writes: the sender would see a reset instead of the
   * reply. So the rest of the request is read and discarded for a moment first.
   */
  #replyUnread(body: Buffer): void {
    const { socket } = this.#request;
    this.#response.flushHeaders();
    if (body.length > 0) this.#response.write(body);
    const timer = setTimeout(() => socket.destroy(), unreadMaxMs).unref();
    this.#request.once("end", () => {
      clearTimeout(timer);
      this.#response.end();
    });
    this.#request.resume();
  }
}
