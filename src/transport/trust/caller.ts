/** The peer of a request, as identified by the transport. */

import { Code, ConnectError, type ContextKey, type ContextValues, createContextKey } from "@connectrpc/connect";

export type Caller =
  /** A caller on the unix socket with a checked uid: the daemon's owner or root. */
  | { kind: "local"; uid: number; pid: number }
  /** Presented a valid certificate of this colony's authority. */
  | { kind: "agent"; agentId: string }
  /** Sent `Authorization: Bearer …`. The token is not checked yet; `authorize` does that. */
  | { kind: "bearer"; token: string; loopback: boolean }
  | { kind: "anonymous"; loopback: boolean }
  /** Presented a certificate that this colony does not accept. `reason` may be sent to the caller. */
  | { kind: "refused"; reason: string; loopback: boolean };

/** The caller, for ConnectRouter services: `context.values.get(callerKey)`. */
export const callerKey: ContextKey<Caller> = /*@__PURE__*/ createContextKey<Caller>(
  { kind: "anonymous", loopback: false },
  { description: "caller" },
);

/** The id of the agent that calls, or a ConnectError `unauthenticated` with the exact reason. */
export function requireAgent(values: ContextValues): string {
  const caller = values.get(callerKey);
  if (caller.kind === "agent") return caller.agentId;
  const reason = caller.kind === "refused" ? caller.reason : "no client certificate; join the colony first";
  throw new ConnectError(`Cannot accept the call: ${reason}`, Code.Unauthenticated);
}
