/** Node's HTTP/1.1 and HTTP/2 servers without a port of their own: they are handed connections that someone else has accepted. */

import { createServer as createHttp1Server, type Server as Http1Server } from "node:http";
import { createServer as createHttp2Server, type Http2Server, type Http2ServerRequest, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { HttpRequest, HttpResponse } from "./http-handler.ts";
import { acceptUpgrades, type Upgrade } from "./http-upgrade.ts";

export interface HttpServersOptions {
  maxStreams: number;
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  idleTimeoutMs: number;
  /** With `upgrade` when the client wants to leave HTTP; who takes the connection owns it. */
  onRequest: (request: HttpRequest, response: HttpResponse, upgrade?: Upgrade) => void;
  /** A client was too slow and has been cut. */
  onTimeout: () => void;
}

export interface HttpServers {
  http1(socket: Socket): void;
  http2(socket: Socket): void;
  /** Stops taking requests and waits for those under way, at the most `timeoutMs`. */
  drain(timeoutMs: number): Promise<void>;
}

export function createHttpServers(options: HttpServersOptions): HttpServers {
  const underWay = new RequestsUnderWay();
  const http1 = createServer1(options, underWay);
  const sessions = new Set<ServerHttp2Session>();
  const http2 = createServer2(options, underWay, sessions);
  return {
    http1: (socket) => void http1.emit("connection", socket),
    http2: (socket) => void http2.emit("connection", socket),
    drain: async (timeoutMs) => {
      http1.close();
      http1.closeIdleConnections();
      for (const session of sessions) session.close();
      await underWay.idle(timeoutMs);
      http1.closeAllConnections();
      for (const session of sessions) session.destroy();
    },
  };
}

function createServer1(options: HttpServersOptions, underWay: RequestsUnderWay): Http1Server {
  const server = createHttp1Server({
    maxHeaderSize: 16 * 1024,
    // Node refuses one above the other.
    headersTimeout: Math.min(options.headersTimeoutMs, options.requestTimeoutMs),
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    connectionsCheckingInterval: Math.min(1_000, options.headersTimeoutMs),
  });
  server.on("request", (request, response) => {
    underWay.add(response);
    options.onRequest(request, response);
  });
  acceptUpgrades(server, options.onRequest);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") options.onTimeout();
    const status =
      error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? "408 Request Timeout"
        : error.code === "HPE_HEADER_OVERFLOW"
          ? "431 Request Header Fields Too Large"
          : "400 Bad Request";
    // destroySoon lets the answer out; a plain destroy would drop it.
    if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    (socket as Socket).destroySoon();
  });
  // The header and request timeouts are watched from this event on; nothing listens, so it has to be said.
  server.emit("listening");
  return server;
}

function createServer2(options: HttpServersOptions, underWay: RequestsUnderWay, sessions: Set<ServerHttp2Session>): Http2Server {
  const server = createHttp2Server({
    settings: { maxConcurrentStreams: options.maxStreams, maxHeaderListSize: 16 * 1024 },
    maxSessionMemory: 16,
  });
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    watchIdle(session, options);
  });
  server.on("request", (request, response) => {
    underWay.add(response);
    watchBody(request, options);
    options.onRequest(request, response);
  });
  // Protocol errors of one peer: node has closed its session already.
  server.on("sessionError", () => undefined);
  return server;
}

/** Closes a session that has had no request for a while. Only requests count, so that pings or half a header do not hold it open. */
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

/** HTTP/2 has no request timeout in node; HTTP/1.1 has. */
function watchBody(request: Http2ServerRequest, options: HttpServersOptions): void {
  const { stream } = request;
  if (stream.endAfterHeaders) return;
  const timer = setTimeout(() => {
    if (request.complete) return;
    options.onTimeout();
    stream.close();
  }, options.requestTimeoutMs);
  timer.unref();
  stream.once("end", () => clearTimeout(timer));
  stream.once("close", () => clearTimeout(timer));
}

class RequestsUnderWay {
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
