/** The agent's end of a tunnel: dials the colony, then serves AgentService as HTTP/2 server on that connection. */

import { constants, createServer, type ServerHttp2Session } from "node:http2";
import type { TLSSocket } from "node:tls";
import { type ConnectRouter, createContextValues } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { createRpcHandler } from "../http/rpc-handler.ts";
import { dialTls, explain } from "../trust/dial-tls.ts";
import type { Identity } from "../trust/identity.ts";
import { startKeepAlive } from "./keep-alive.ts";
import { closeReasonIn, refusalCode } from "./tunnel.ts";
import { type FindServedFile, serveFile } from "./tunnel-files.ts";

export interface DialTunnelOptions {
  /** `host:port`. */
  endpoint: string;
  identity: Identity;
  colonyId: string;
  routes: (router: ConnectRouter) => void;
  /** Cancels the dial, or closes the open tunnel. */
  signal: AbortSignal;
  log: Logger;
  /** For connect and acceptance. Default 10 s. */
  timeoutMs?: number;
  /** Silence after which a ping is sent. Default 10 s. */
  pingIntervalMs?: number;
  /** A ping without a reply closes the tunnel after this time. Default 10 s. */
  pingTimeoutMs?: number;
  /** Largest request accepted from the colony. Default 4 MiB. */
  maxRequestBytes?: number;
  /** Files that the colony may read. Absent: none. */
  files?: FindServedFile;
}

/** An accepted tunnel. Disposing it is the same as `close`. */
export interface DialledTunnel extends AsyncDisposable {
  /** Why it closed: `unavailable` for a lost connection, `unauthenticated` if the colony refused the agent, `cancelled` if this side closed it. */
  closed: Promise<CoralError>;
  close(reason: string): Promise<void>;
}

/** Resolves when the colony has accepted the tunnel; otherwise throws a CoralError with the endpoint and the reason. */
export async function dialTunnel(options: DialTunnelOptions): Promise<DialledTunnel> {
  const { endpoint, identity, colonyId, signal, timeoutMs = 10_000 } = options;
  const startedAtMs = performance.now();
  const socket = await dialTls({
    endpoint,
    trust: { kind: "authority", caPem: identity.caPem, colonyId },
    alpn: "coral-tunnel/1",
    clientCertificate: identity,
    signal,
    timeoutMs,
  });
  const session = serveOn(socket, options);
  const tunnel = new ServedTunnel(session, socket, options);
  await tunnel.accepted(Math.max(1, timeoutMs - (performance.now() - startedAtMs)));
  return tunnel;
}

/** The agent dials but serves: on this connection the roles of HTTP/2 are reversed, so that no port of the agent must be open. */
function serveOn(socket: TLSSocket, options: DialTunnelOptions): ServerHttp2Session {
  const handler = createRpcHandler({ routes: options.routes, maxBodyBytes: options.maxRequestBytes ?? 4 * 1024 * 1024, log: options.log });
  const server = createServer({
    settings: { maxConcurrentStreams: 32, enableConnectProtocol: false },
    // Mebibytes; a large reply may be queued here.
    maxSessionMemory: 64,
  });
  server.on("request", (request, response) => {
    if (options.files && serveFile(request, response, options.files)) return;
    if (!handler(request, response, createContextValues())) response.writeHead(404).end();
  });
  // Node's HTTP/2 server serves any duplex as a connection; this one never listens.
  let session: ServerHttp2Session | undefined;
  server.once("session", (made) => {
    session = made;
  });
  server.emit("connection", socket);
  if (!session) throw new CoralError({ code: "internal", message: "Cannot serve the tunnel: no HTTP/2 session was created" });
  return session;
}

/** Records the first reason for its end; later ones are consequences of it. */
class ServedTunnel implements DialledTunnel {
  readonly closed: Promise<CoralError>;
  readonly #session: ServerHttp2Session;
  readonly #endpoint: string;
  #ending: CoralError | undefined;

  constructor(session: ServerHttp2Session, socket: TLSSocket, options: DialTunnelOptions) {
    this.#session = session;
    this.#endpoint = options.endpoint;
    const { signal, pingIntervalMs = 10_000, pingTimeoutMs = 10_000 } = options;
    const onAbort = (): void => this.#end("cancelled", "cancelled");
    signal.addEventListener("abort", onAbort, { once: true });
    this.closed = new Promise((resolve) => {
      session.once("close", () => {
        signal.removeEventListener("abort", onAbort);
        resolve(this.#ending ?? this.#error("unavailable", "the connection was lost"));
      });
    });
    session.on("goaway", (code: number, _lastStream: number, data?: Uint8Array) => {
      const reason = data?.length ? closeReasonIn(data) : "the colony closed the tunnel";
      this.#ending ??= this.#error(code === refusalCode ? "unauthenticated" : "unavailable", reason);
    });
    session.on("error", (error) => {
      this.#ending ??= explain(options.endpoint, error);
    });
    // A TLS 1.3 server refuses a client certificate only now, with an alert.
    socket.on("error", (error) => {
      this.#ending ??= explain(options.endpoint, error);
    });
    const keepAlive = startKeepAlive(session, {
      intervalMs: pingIntervalMs,
      timeoutMs: pingTimeoutMs,
      onDead: (silentMs) => this.#end("unavailable", `no response for ${Math.round(silentMs / 1_000)} s`),
    });
    session.on("stream", () => keepAlive.touch());
    session.on("ping", () => keepAlive.touch());
    if (signal.aborted) onAbort();
  }

  /** The colony's first ping means "accepted"; see openTunnel. */
  async accepted(timeoutMs: number): Promise<void> {
    const timer = setTimeout(() => this.#end("timeout", `it did not accept the tunnel within ${Math.round(timeoutMs)} ms`), timeoutMs);
    const ping = new Promise<undefined>((resolve) => {
      this.#session.once("ping", () => resolve(undefined));
    });
    const failure = await Promise.race([ping, this.closed]);
    clearTimeout(timer);
    if (failure) throw failure;
  }

  async close(reason: string): Promise<void> {
    if (this.#ending === undefined && !this.#session.destroyed) {
      this.#ending = this.#error("cancelled", reason);
      this.#session.goaway(constants.NGHTTP2_NO_ERROR, 0, Buffer.from(reason));
      this.#session.close();
      const timer = setTimeout(() => this.#session.destroy(), 1_000);
      await this.closed;
      clearTimeout(timer);
    }
    await this.closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close("closed by the agent");
  }

  #end(code: "unavailable" | "timeout" | "cancelled", why: string): void {
    this.#ending ??= this.#error(code, why);
    this.#session.destroy();
  }

  #error(code: "unavailable" | "unauthenticated" | "timeout" | "cancelled", why: string): CoralError {
    return new CoralError({
      code,
      message: `Cannot keep the tunnel to the colony at "${this.#endpoint}": ${why}`,
      details: { endpoint: this.#endpoint },
    });
  }
}
