/** The colony's one port: TLS 1.3 for agents, remote people and tunnels; plain HTTP for loopback only. */

import type { ConnectRouter } from "@connectrpc/connect";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Caller } from "./caller.ts";
import type { Tunnel, TunnelOptions } from "./tunnel.ts";

export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;
/** Answers a request that is no RPC. Must not throw; see createHttpRoutes(). */
export type HttpHandler = (request: HttpRequest, response: HttpResponse, caller: Caller) => void;

/** PEM texts. `certPem` holds the leaf and the authority's certificate. */
export interface ServerTls {
  certPem: string;
  keyPem: string;
  caPem: string;
}

export interface ColonyServerLimits {
  /** Default 2,048. */
  maxTunnels: number;
  /** Connections with requests, not tunnels. Default 2,048. */
  maxRequestConnections: number;
  /** Connections that have not finished their handshake; past it the oldest is dropped. Default 1,024. */
  maxPendingConnections: number;
  /** Per HTTP/2 connection. Default 32. */
  maxStreams: number;
  /** Of one RPC message or JSON body. Default 4 MiB. */
  maxBodyBytes: number;
  /** From accept to the end of the TLS handshake. Default 10 s. */
  handshakeTimeoutMs: number;
  /** For the headers of a request. Default 10 s. */
  headersTimeoutMs: number;
  /** For the whole request to arrive. Default 30 s. */
  requestTimeoutMs: number;
  /** A connection without a request is closed after it. Default 60 s. */
  idleTimeoutMs: number;
  /** How long `close` waits for requests under way. Default 2 s. */
  drainTimeoutMs: number;
}

export interface ColonyServerOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** 0 picks a free one. */
  port: number;
  /** How many following ports to try when the port is taken. Default 0: fail. */
  portSearch?: number;
  colonyId: string;
  /** Read at the start and by `reloadTls`. */
  tls: () => ServerTls;
  /** RPC services, TLS only. Join may be called without a certificate; for everything else it has been checked. */
  routes: (router: ConnectRouter) => void;
  http: HttpHandler;
  /** Gets each tunnel once it answers; the receiver owns it. */
  onTunnel: (tunnel: Tunnel) => void;
  isRevoked: (agentId: string) => boolean;
  log: Logger;
  limits?: Partial<ColonyServerLimits>;
  tunnel?: TunnelOptions;
  /** Wall clock, for certificate checks. Default Date.now. */
  nowMs?: () => number;
}

export interface ColonyServerStats {
  tunnels: number;
  requestConnections: number;
  pendingConnections: number;
  /** Since the start, by reason: not-loopback, bad-handshake, timeout, too-many, bad-host. */
  refused: Readonly<Record<string, number>>;
}

export interface ColonyServer extends AsyncDisposable {
  host: string;
  port: number;
  /** After the colony's certificate was renewed. Open connections keep the old one. */
  reloadTls(): void;
  stats(): ColonyServerStats;
  /** Stops listening, lets requests under way finish (drainTimeoutMs), then cuts every connection. Idempotent. */
  close(): Promise<void>;
}

export function startColonyServer(_options: ColonyServerOptions): Promise<ColonyServer> {
  throw new CoralError({ code: "internal", message: "not built" });
}
