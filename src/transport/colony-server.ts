/** The colony's only port: TLS 1.3 for agents, tunnels and remote clients; plain HTTP on loopback only. */

import { X509Certificate } from "node:crypto";
import { createServer as createNetServer, type Server, type Socket } from "node:net";
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
  type TlsOptions,
  type Server as TlsServer,
} from "node:tls";
import { type ConnectRouter, createContextValues, type Interceptor } from "@connectrpc/connect";
import { background } from "../base/background.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { ColonyService } from "../proto/coral/colony/v1/colony_pb.ts";
import { ConnectionSet } from "./http/connection-set.ts";
import { type HttpHandler, type HttpRequest, type HttpResponse, sendError } from "./http/http-handler.ts";
import { createHttpServers, type HttpServers } from "./http/http-servers.ts";
import { listen } from "./http/listen.ts";
import { loopbackProblem } from "./http/loopback-guard.ts";
import { PendingConnections } from "./http/pending-connections.ts";
import { createRpcHandler, type RpcHandler } from "./http/rpc-handler.ts";
import { type Caller, callerKey, requireAgent } from "./trust/caller.ts";
import { type AgentCertificate, checkAgentCertificate } from "./trust/certificate-check.ts";
import { presentedCertificate } from "./trust/certificates.ts";
import { isLoopbackAddress } from "./trust/endpoint.ts";
import { openTunnel, refuseTunnel, type Tunnel, type TunnelOptions } from "./tunnel/tunnel.ts";

/** PEM texts. `certPem` contains the leaf and the authority's certificate. */
export interface ServerTls {
  certPem: string;
  keyPem: string;
  caPem: string;
}

/** Limits of the port. They bound memory and file descriptors whatever a client sends. */
export interface ColonyServerLimits {
  /** Default 2,048. */
  maxTunnels: number;
  /** Connections with requests, not tunnels. Default 2,048. */
  maxRequestConnections: number;
  /** Connections that have not finished their handshake; above it the oldest is dropped. Default 1,024. */
  maxPendingConnections: number;
  /** Per HTTP/2 connection. Default 32. */
  maxStreams: number;
  /** Of one RPC message. Default 4 MiB. */
  maxBodyBytes: number;
  /** From accept to the end of the TLS handshake. Default 10 s. */
  handshakeTimeoutMs: number;
  /** For the headers of a request to arrive. Default 10 s. */
  headersTimeoutMs: number;
  /** For the whole request to arrive. Default 30 s. */
  requestTimeoutMs: number;
  /** A connection without a request is closed after this. Default 60 s. */
  idleTimeoutMs: number;
  /** How long `close` waits for requests in progress. Default 2 s. */
  drainTimeoutMs: number;
}

const defaultLimits: ColonyServerLimits = {
  maxTunnels: 2_048,
  maxRequestConnections: 2_048,
  maxPendingConnections: 1_024,
  maxStreams: 32,
  maxBodyBytes: 4 * 1024 * 1024,
  handshakeTimeoutMs: 10_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  idleTimeoutMs: 60_000,
  drainTimeoutMs: 2_000,
};

export interface ColonyServerOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** 0 picks a free one. */
  port: number;
  /** How many of the following ports to try when the port is in use. Default 0: fail. */
  portSearch?: number;
  colonyId: string;
  /** Read at the start and by `reloadTls`. */
  tls: () => ServerTls;
  /** RPC services, TLS only. Join may be called without a certificate; all other calls have a checked one. */
  routes: (router: ConnectRouter) => void;
  http: HttpHandler;
  /** Receives, and then owns, each tunnel once it responds. */
  onTunnel: (tunnel: Tunnel) => void;
  isRevoked: (agentId: string) => boolean;
  log: Logger;
  limits?: Partial<ColonyServerLimits>;
  tunnel?: TunnelOptions;
  /** Wall clock, for certificate checks. Default Date.now. */
  nowMs?: () => number;
  /** Which peers may use plain HTTP. Default: loopback addresses. */
  isLoopback?: (address: string) => boolean;
}

/** Open connections by kind. A tunnel is not counted as a request connection. */
export interface ColonyServerStats {
  tunnels: number;
  requestConnections: number;
  pendingConnections: number;
  /** Connections refused since the start, by reason. */
  refused: Readonly<Record<RefusalReason, number>>;
}

export type RefusalReason = "plain-http" | "foreign-host" | "handshake" | "timeout" | "certificate" | "limit";

/** A listening port. Disposing it is the same as `close`. */
export interface ColonyServer extends AsyncDisposable {
  host: string;
  port: number;
  /** Call after the colony's certificate was renewed. Open connections keep the old one. */
  reloadTls(): void;
  stats(): ColonyServerStats;
  /** Stops listening, lets requests in progress finish (drainTimeoutMs), then closes every connection. Idempotent. */
  close(): Promise<void>;
}

/** Rejects if the port cannot be opened or the TLS files are invalid. */
export async function startColonyServer(options: ColonyServerOptions): Promise<ColonyServer> {
  const server = new Port(options);
  await server.listen();
  return server;
}

/** Content type of a TLS record with a handshake message (RFC 8446). No HTTP request begins with it. */
const tlsHandshakeByte = 0x16;
const plainHttpRefused = "Plain HTTP is served on loopback only: use TLS, or connect from the colony's own machine\n";

/** Accepts connections, detects their protocol and identifies their peers. */
class Port implements ColonyServer {
  readonly host: string;
  port = 0;
  readonly #options: ColonyServerOptions;
  readonly #limits: ColonyServerLimits;
  readonly #log: Logger;
  readonly #listener: Server;
  readonly #tls: TlsServer;
  readonly #http: HttpServers;
  readonly #rpc: RpcHandler;
  readonly #pending: PendingConnections;
  readonly #requests: ConnectionSet;
  readonly #tunnels: ConnectionSet;
  readonly #refused: Record<RefusalReason, number> = {
    "plain-http": 0,
    "foreign-host": 0,
    handshake: 0,
    timeout: 0,
    certificate: 0,
    limit: 0,
  };
  readonly #certificates = new WeakMap<TLSSocket, X509Certificate | undefined>();
  #authority: X509Certificate;
  #closing: Promise<void> | undefined;

  constructor(options: ColonyServerOptions) {
    this.#options = options;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#log = options.log;
    this.host = options.host ?? "127.0.0.1";
    this.#pending = new PendingConnections({
      max: this.#limits.maxPendingConnections,
      timeoutMs: this.#limits.handshakeTimeoutMs,
      onDropped: (reason) => this.#refused[reason]++,
    });
    this.#requests = new ConnectionSet(this.#limits.maxRequestConnections);
    this.#tunnels = new ConnectionSet(this.#limits.maxTunnels);
    this.#rpc = createRpcHandler({
      routes: options.routes,
      maxBodyBytes: this.#limits.maxBodyBytes,
      interceptors: [membersOnly],
      log: this.#log,
    });
    this.#http = createHttpServers({
      ...this.#limits,
      onRequest: (request, response, socket) => this.#onRequest(request, response, socket),
      onTimeout: () => this.#refused.timeout++,
    });
    const tls = options.tls();
    this.#authority = new X509Certificate(tls.caPem);
    this.#tls = createTlsServer({ ...tlsOptions(tls), handshakeTimeout: this.#limits.handshakeTimeoutMs });
    this.#tls.on("secureConnection", (socket) => this.#onSecure(socket));
    this.#tls.on("tlsClientError", (error, socket) => {
      this.#refused.handshake++;
      this.#log.debug("tls handshake failed", { peer: socket.remoteAddress, error });
      socket.destroy();
    });
    this.#listener = createNetServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 }, (socket) =>
      this.#onConnection(socket),
    );
  }

  async listen(): Promise<void> {
    this.port = await listen(this.#listener, this.host, this.#options.port, this.#options.portSearch ?? 0);
    this.#listener.on("error", (error) => this.#log.error("cannot accept connections", { error }));
  }

  reloadTls(): void {
    const tls = this.#options.tls();
    this.#tls.setSecureContext(tlsOptions(tls));
    this.#authority = new X509Certificate(tls.caPem);
  }

  stats(): ColonyServerStats {
    return {
      tunnels: this.#tunnels.size,
      requestConnections: this.#requests.size,
      pendingConnections: this.#pending.size,
      refused: { ...this.#refused },
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #shutDown(): Promise<void> {
    const stopped = new Promise<void>((resolve) => {
      this.#listener.close(() => resolve());
    });
    this.#pending.destroyAll();
    await this.#http.drain(this.#limits.drainTimeoutMs);
    this.#requests.destroyAll();
    this.#tunnels.destroyAll();
    this.#pending.destroyAll();
    await stopped;
  }

  #onConnection(socket: Socket): void {
    // Resets must not end the process; readers of the socket get "close".
    socket.on("error", () => undefined);
    if (this.#closing) {
      socket.destroy();
      return;
    }
    this.#pending.add(socket);
    socket.once("readable", () => this.#onFirstBytes(socket));
  }

  #onFirstBytes(socket: Socket): void {
    const bytes = socket.read() as Buffer | null;
    if (bytes === null) {
      socket.destroy();
      return;
    }
    socket.unshift(bytes);
    if (bytes[0] === tlsHandshakeByte) {
      this.#tls.emit("connection", socket);
      return;
    }
    if (!this.#isLoopback(socket)) {
      this.#refused["plain-http"]++;
      socket.end(
        `HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.3\r\nConnection: Upgrade, close\r\nContent-Type: text/plain\r\nContent-Length: ${plainHttpRefused.length}\r\n\r\n${plainHttpRefused}`,
      );
      // Further data of the peer is not read.
      socket.destroySoon();
      return;
    }
    if (this.#admit(socket)) this.#http.http1(socket);
  }

  /** After the TLS handshake; the peer is identified later. */
  #onSecure(socket: TLSSocket): void {
    socket.on("error", () => undefined);
    if (socket.alpnProtocol === "coral-tunnel/1") {
      this.#pending.settle(socket);
      this.#onTunnel(socket);
    } else if (this.#admit(socket)) {
      if (socket.alpnProtocol === "h2") this.#http.http2(socket);
      else this.#http.http1(socket);
    }
  }

  /** Turns a pending connection into a request connection, or drops it if there are too many. */
  #admit(socket: Socket): boolean {
    this.#pending.settle(socket);
    if (this.#requests.isFull) {
      this.#refused.limit++;
      socket.destroy();
      return false;
    }
    this.#requests.add(socket);
    return true;
  }

  #onTunnel(socket: TLSSocket): void {
    const agent = this.#agentOn(socket);
    if (agent.kind !== "agent") {
      const reason = agent.kind === "refused" ? agent.reason : "no client certificate; join the colony first";
      this.#refused.certificate++;
      this.#log.warn("tunnel refused", { peer: socket.remoteAddress, reason });
      refuseTunnel(socket, reason);
      return;
    }
    if (this.#tunnels.isFull) {
      this.#refused.limit++;
      refuseTunnel(socket, `the colony has reached its limit of ${this.#limits.maxTunnels} tunnels`);
      return;
    }
    this.#tunnels.add(socket);
    const opened = openTunnel({
      ...this.#options.tunnel,
      socket,
      agentId: agent.agentId,
      certificateNotAfterMs: agent.notAfterMs,
      nowMs: this.#nowMs(),
    });
    background(
      this.#log,
      "Opening a tunnel",
      opened.then(
        (tunnel) => this.#options.onTunnel(tunnel),
        (error: unknown) => this.#log.info("tunnel not opened", { agent: agent.agentId, error }),
      ),
    );
  }

  #onRequest(request: HttpRequest, response: HttpResponse, socket: Socket): void {
    if (!isTls(socket)) {
      const problem = loopbackProblem(request);
      if (problem !== undefined) {
        this.#refused["foreign-host"]++;
        sendError(response, new CoralError({ code: "not-permitted", message: `Cannot serve the request: ${problem}` }));
        return;
      }
      this.#options.http(request, response, { kind: "anonymous", loopback: true });
      return;
    }
    const caller = this.#callerOn(socket);
    if (this.#rpc(request, response, createContextValues().set(callerKey, caller))) return;
    this.#options.http(request, response, caller);
  }

  /** Checked for every request, not once per connection: certificates expire and are revoked while connections are open. */
  #callerOn(socket: TLSSocket): Caller {
    const agent = this.#agentOn(socket);
    const loopback = this.#isLoopback(socket);
    if (agent.kind === "agent") return { kind: "agent", agentId: agent.agentId };
    if (agent.kind === "missing") return { kind: "anonymous", loopback };
    this.#refused.certificate++;
    return { kind: "refused", reason: agent.reason, loopback };
  }

  #agentOn(socket: TLSSocket): AgentCertificate {
    // The certificate belongs to the connection; whether it is valid changes over time.
    const known = this.#certificates.has(socket);
    const certificate = known ? this.#certificates.get(socket) : presentedCertificate(socket);
    if (!known) this.#certificates.set(socket, certificate);
    const { colonyId, isRevoked } = this.#options;
    return checkAgentCertificate(certificate, {
      authority: this.#authority,
      colonyId,
      isRevoked,
      nowMs: this.#nowMs(),
    });
  }

  #isLoopback(socket: Socket): boolean {
    return (this.#options.isLoopback ?? isLoopbackAddress)(socket.remoteAddress ?? "");
  }

  #nowMs(): number {
    return (this.#options.nowMs ?? Date.now)();
  }
}

function tlsOptions(tls: ServerTls): SecureContextOptions & TlsOptions {
  return {
    cert: tls.certPem,
    key: tls.keyPem,
    ca: tls.caPem,
    minVersion: "TLSv1.3",
    ALPNProtocols: ["coral-tunnel/1", "h2", "http/1.1"],
    requestCert: true,
    // A handshake with a bad certificate, or none, succeeds: #agentOn checks it, so that the refusal can state the reason.
    rejectUnauthorized: false,
  };
}

function isTls(socket: Socket): socket is TLSSocket {
  return "encrypted" in socket && socket.encrypted === true;
}

/** Join has a token; every other call needs a certificate. */
const membersOnly: Interceptor = (next) => (request) => {
  if (request.method !== ColonyService.method.join) requireAgent(request.contextValues);
  return next(request);
};
