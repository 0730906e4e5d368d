/** Node's HTTP/1.1 and HTTP/2 servers without a listener: they serve connections that the caller has accepted. */

import { createServer as createHttp1Server, type Server as Http1Server } from "node:http";
import { createServer as createHttp2Server, type Http2Server, type Http2ServerRequest, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { HttpRequest, HttpResponse } from "./http-handler.ts";

export interface HttpServersOptions {
  maxStreams: number;
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  idleTimeoutMs: number;
  /** How often HTTP/1.1 timeouts are checked. Default: every second, or more often for shorter timeouts. */
  checkIntervalMs?: number;
  /** `socket` is the accepted connection; an HTTP/2 request has only a proxy of it. */
  onRequest: (request: HttpRequest, response: HttpResponse, socket: Socket) => void;
  /** A client exceeded a timeout and was disconnected. */
  onTimeout: () => void;
}

/** Pass each connection to one of the two, once. Its bytes so far must be unread. */
export interface HttpServers {
  http1(socket: Socket): void;
  http2(socket: Socket): void;
  /** Stops accepting requests and waits at most `timeoutMs` for those in progress. */
  drain(timeoutMs: number): Promise<void>;
}

/** The servers have no listener and no TLS: both belong to the caller. */
export function createHttpServers(options: HttpServersOptions): HttpServers {
  const inProgress = new RequestsInProgress();
  const http1 = createServer1(options, inProgress);
  const sessions = new Map<ServerHttp2Session, Socket>();
  const http2 = createServer2(options, inProgress, sessions);
  return {
    http1: (socket) => void http1.emit("connection", socket),
    http2: (socket) => {
      const onSession = (session: ServerHttp2Session): void => {
        sessions.set(session, socket);
        session.once("close", () => sessions.delete(session));
        watchIdle(session, options);
      };
      // Node emits "session" before emit() returns.
      http2.once("session", onSession).emit("connection", socket);
      http2.off("session", onSession);
    },
    drain: async (timeoutMs) => {
      http1.close();
      http1.closeIdleConnections();
      for (const session of sessions.keys()) session.close();
      await inProgress.idle(timeoutMs);
      http1.closeAllConnections();
      for (const session of sessions.keys()) session.destroy();
    },
  };
}

/** A malformed request gets a status line, because there is no request object to reply to. */
function createServer1(options: HttpServersOptions, inProgress: RequestsInProgress): Http1Server {
  const server = createHttp1Server({
    maxHeaderSize: 16 * 1024,
    // Node rejects a headers timeout above the request timeout.
    headersTimeout: Math.min(options.headersTimeoutMs, options.requestTimeoutMs),
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    connectionsCheckingInterval: options.checkIntervalMs ?? Math.min(1_000, options.headersTimeoutMs),
  });
  server.on("request", (request, response) => {
    inProgress.add(response);
    options.onRequest(request, response, request.socket);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") options.onTimeout();
    const status =
      error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? "408 Request Timeout"
        : error.code === "HPE_HEADER_OVERFLOW"
          ? "431 Request Header Fields Too Large"
          : "400 Bad Request";
    // destroySoon flushes the reply; destroy would drop it.
    if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    (socket as Socket).destroySoon();
  });
  // Node starts its timeout checks on this event, which a server without a listener never emits.
  server.emit("listening");
  return server;
}

/** `maxSessionMemory` is in MiB, per connection. */
function createServer2(
  options: HttpServersOptions,
  inProgress: RequestsInProgress,
  sessions: ReadonlyMap<ServerHttp2Session, Socket>,
): Http2Server {
  const server = createHttp2Server({
    settings: { maxConcurrentStreams: options.maxStreams, maxHeaderListSize: 16 * 1024 },
    maxSessionMemory: 16,
  });
  server.on("request", (request, response) => {
    const { session } = request.stream;
    const socket = session && sessions.get(session as ServerHttp2Session);
    // The connection was lost in the meantime.
    if (!socket) return;
    inProgress.add(response);
    watchBody(request, options);
    options.onRequest(request, response, socket);
  });
  // A peer's protocol error: node has already closed its session.
  server.on("sessionError", () => undefined);
  return server;
}

/** Closes a session without requests for idleTimeoutMs. Only requests count: pings or half a header do not keep it open. */
function watchIdle(session: ServerHttp2Session, options: HttpServersOptions): void {
  let open = 0;
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    timer = setTimeout(() => {
      options.onTimeout();
      session.destroy();
    }, options.idleTimeoutMs);
    timer.unref();
  };
  arm();
  session.on("stream", (stream) => {
    open++;
    clearTimeout(timer);
    stream.once("close", () => {
      open--;
      if (open === 0 && !session.destroyed) arm();
    });
  });
  session.once("close", () => clearTimeout(timer));
}

const bodyTimers = new WeakMap<HttpRequest, NodeJS.Timeout>();

/** For calls that stream in both directions, whose request may take any time. */
export function liftRequestTimeout(request: HttpRequest): void {
  clearTimeout(bodyTimers.get(request));
}

/** Node has a request timeout for HTTP/1.1 only; this is the one for HTTP/2. */
function watchBody(request: Http2ServerRequest, options: HttpServersOptions): void {
  const { stream } = request;
  if (stream.endAfterHeaders) return;
  const timer = setTimeout(() => {
    if (request.complete) return;
    options.onTimeout();
    stream.close();
  }, options.requestTimeoutMs);
  timer.unref();
  bodyTimers.set(request, timer);
  stream.once("end", () => clearTimeout(timer));
  stream.once("close", () => clearTimeout(timer));
}

/** Counts requests until their response is closed, also when the client has disconnected. */
class RequestsInProgress {
  #count = 0;
  #onIdle: (() => void) | undefined;

  add(response: HttpResponse): void {
    this.#count++;
    response.once("close", () => {
      this.#count--;
      if (this.#count === 0) this.#onIdle?.();
    });
  }

  async idle(timeoutMs: number): Promise<void> {
    if (this.#count === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
