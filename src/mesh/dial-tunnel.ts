/** The agent's end of a tunnel: dials the colony, then serves AgentService as HTTP/2 server on that connection. */

import type { ConnectRouter } from "@connectrpc/connect";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Identity } from "./identity.ts";

export interface DialTunnelOptions {
  /** `host:port`. */
  endpoint: string;
  identity: Identity;
  colonyId: string;
  routes: (router: ConnectRouter) => void;
  /** Ends the dial, and the tunnel once it is open. */
  signal: AbortSignal;
  log: Logger;
  /** For connecting and being accepted. Default 10 s. */
  timeoutMs?: number;
  pingIntervalMs?: number;
  pingTimeoutMs?: number;
  /** Largest request accepted from the colony. Default 4 MiB. */
  maxRequestBytes?: number;
}

export interface DialledTunnel extends AsyncDisposable {
  /** Why it ended: `unavailable` for a lost connection, `unauthenticated` when the colony turned the agent away, `cancelled` for our own close. */
  closed: Promise<CoralError>;
  close(reason: string): Promise<void>;
}

/** Resolves when the colony has accepted the tunnel; otherwise throws a CoralError that says what went wrong and where. */
export function dialTunnel(_options: DialTunnelOptions): Promise<DialledTunnel> {
  throw new CoralError({ code: "internal", message: "not built" });
}
