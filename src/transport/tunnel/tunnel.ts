/** The colony's end of a tunnel: an HTTP/2 client over the connection that the agent has dialled. */

import { type ClientHttp2Session, constants } from "node:http2";
import type { TLSSocket } from "node:tls";
import type { Transport } from "@connectrpc/connect";
import { startKeepAlive } from "./keep-alive.ts";
import { createClientSession, createSessionTransport } from "./session-transport.ts";
import { type ReadFileOptions, readServedFile } from "./tunnel-files.ts";

export interface TunnelOptions {
  /** Silence after which a ping is sent. Default 10 s. */
  pingIntervalMs?: number;
  /** A ping without a reply closes the tunnel after this time. Default 10 s. */
  pingTimeoutMs?: number;
  /** Largest reply accepted. Default 32 MiB. */
  maxReplyBytes?: number;
}

/** Why a tunnel closed. */
export interface TunnelClosed {
  /** For log lines: `closed by the agent: shutting down`, `no response for 20 s`. */
  reason: string;
}

/** One agent's tunnel, owned by the receiver of onTunnel. */
export interface Tunnel extends AsyncDisposable {
  agentId: string;
  /** `address:port` of the agent's end. */
  remoteAddress: string;
  /** Calls AgentService through this tunnel only; fails with `unavailable` once it is closed. */
  transport: Transport;
  /** A file that the agent serves, such as a segment; see `readServedFile`. */
  readFile(name: string, options: ReadFileOptions): AsyncIterable<Uint8Array>;
  /** The tunnel is closed when the certificate that it was opened with expires. */
  certificateNotAfterMs: number;
  /** Resolves, never rejects. */
  closed: Promise<TunnelClosed>;
  /** Sends the agent the reason, which it logs, then closes the connection. Idempotent. */
  close(reason: string): Promise<void>;
}

/** GOAWAY code for a permanent refusal, unlike a shutdown. */
export const refusalCode = constants.NGHTTP2_INADEQUATE_SECURITY;
/** Time for the agent to read the reason. */
const closeReasonMs = 1_000;
/** Longer delays of setTimeout overflow and fire at once: 2^31 - 1 ms, about 24 days. */
const maxTimerMs = 2 ** 31 - 1;

export interface OpenTunnelOptions extends TunnelOptions {
  socket: TLSSocket;
  agentId: string;
  certificateNotAfterMs: number;
  nowMs: number;
}

/**
 * Opens a tunnel over an accepted connection. The first ping means "accepted": the agent waits for it, and its reply means that the agent serves.
 * Resolves with the reply; rejects if the connection closes before.
 */
export function openTunnel(options: OpenTunnelOptions): Promise<Tunnel> {
  const {
    socket,
    agentId,
    certificateNotAfterMs,
    pingIntervalMs = 10_000,
    pingTimeoutMs = 10_000,
    maxReplyBytes = 32 * 1024 * 1024,
  } = options;
  const remoteAddress = `${socket.remoteAddress ?? "?"}:${socket.remotePort ?? "?"}`;
  const session = createClientSession(socket);
  let reason: string | undefined;
  const end = (why: string): void => {
    reason ??= why;
    session.destroy();
  };
  const closed = new Promise<TunnelClosed>((resolve) => {
    session.once("close", () => resolve({ reason: reason ?? "the connection was lost" }));
  });
  session.on("error", (error) => {
    reason ??= `the connection was lost (${error.message})`;
  });
  session.on("goaway", (_code, _lastStream, data) => {
    reason ??= `closed by the agent${data?.length ? `: ${closeReasonIn(data)}` : ""}`;
  });
  const keepAlive = startKeepAlive(session, {
    intervalMs: pingIntervalMs,
    timeoutMs: pingTimeoutMs,
    onDead: (silentMs) => end(`no response for ${Math.round(silentMs / 1_000)} s`),
  });
  const expiry = setTimeout(
    () => void tunnel.close("the agent's certificate has expired; renew it"),
    Math.min(Math.max(certificateNotAfterMs - options.nowMs, 0), maxTimerMs),
  );
  expiry.unref();
  session.once("close", () => clearTimeout(expiry));

  const tunnel: Tunnel = {
    agentId,
    remoteAddress,
    certificateNotAfterMs,
    closed,
    transport: createSessionTransport(session, {
      maxReplyBytes,
      onActivity: () => keepAlive.touch(),
      closedReason: () => `the tunnel to agent "${agentId}" is closed (${reason ?? "the connection was lost"})`,
    }),
    readFile: (name, readOptions) => readServedFile(session, name, { ...readOptions, onActivity: () => keepAlive.touch() }),
    close: async (why) => {
      if (reason === undefined) {
        reason = `closed by the colony: ${why}`;
        sendCloseReason(session, constants.NGHTTP2_NO_ERROR, why);
      }
      await closed;
    },
    [Symbol.asyncDispose]: () => tunnel.close("closed by the colony"),
  };

  return firstPong(session, tunnel);
}

/** Resolves with the tunnel when the agent has replied to the first ping. */
function firstPong(session: ClientHttp2Session, tunnel: Tunnel): Promise<Tunnel> {
  return new Promise((resolve, reject) => {
    void tunnel.closed.then(({ reason }) => reject(new Error(`the tunnel closed before it was open: ${reason}`)));
    session.once("connect", () => {
      session.ping((error) => {
        if (!error) resolve(tunnel);
      });
    });
  });
}

/** Sends the agent the reason for the refusal, and closes the connection. */
export function refuseTunnel(socket: TLSSocket, reason: string): void {
  const session = createClientSession(socket);
  // The agent may close first; nothing waits for this connection.
  session.on("error", () => undefined);
  session.once("connect", () => sendCloseReason(session, refusalCode, reason));
}

function sendCloseReason(session: ClientHttp2Session, code: number, reason: string): void {
  if (session.destroyed) return;
  if (session.connecting) {
    session.destroy();
    return;
  }
  session.goaway(code, 0, Buffer.from(reason));
  session.close();
  const timer = setTimeout(() => session.destroy(), closeReasonMs);
  timer.unref();
  session.once("close", () => clearTimeout(timer));
}

/** Text of a GOAWAY frame: untrusted bytes that are logged, so one line of bounded length. */
export function closeReasonIn(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, Math.min(data.byteLength, 500))
    .toString("utf8")
    .replaceAll(/\p{Cc}/gu, " ");
}
