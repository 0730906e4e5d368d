/** The colony's end of a tunnel: HTTP/2 client over the connection that the agent has dialled. */

import type { Transport } from "@connectrpc/connect";

export interface TunnelOptions {
  /** Silence after which a ping is sent. Default 10 s. */
  pingIntervalMs?: number;
  /** An unanswered ping ends the tunnel after it. Default 10 s. */
  pingTimeoutMs?: number;
  /** Largest reply accepted. Default 32 MiB. */
  maxReplyBytes?: number;
}

export interface TunnelClosed {
  /** Fit for a log line: `closed by the agent`, `no answer for 20 s`. */
  reason: string;
}

/** One agent's tunnel. Whoever gets it from onTunnel owns it. */
export interface Tunnel extends AsyncDisposable {
  agentId: string;
  /** `address:port` of the agent's end. */
  remoteAddress: string;
  /** Calls AgentService through this tunnel only; fails with `unavailable` once it is closed. */
  transport: Transport;
  /** The tunnel is cut when the certificate it was opened with ends. */
  certificateNotAfterMs: number;
  /** Resolves, never rejects. */
  closed: Promise<TunnelClosed>;
  /** Tells the agent why (it appears in the agent's log), then ends the connection. Idempotent. */
  close(reason: string): Promise<void>;
}
