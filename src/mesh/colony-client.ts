/** The agent's calls to its colony: Join, Renew, Register. One short-lived connection per call; none is left open. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { CoralError } from "../base/errors.ts";
import type { RegisterRequestSchema, RegisterResponse } from "../proto/coral/colony/v1/colony_pb.ts";
import type { AgentKey, Identity } from "./identity.ts";
import type { Token } from "./token.ts";

export interface CallOptions {
  signal: AbortSignal;
  /** Connecting included. Default 10 s. */
  timeoutMs?: number;
}

export interface IssuedIdentity {
  certPem: string;
  caPem: string;
}

/** First contact. Tries the token's endpoints in order; the colony is authenticated by the CA fingerprint in the token. */
export function joinColony(
  _options: CallOptions & { token: Token; agentId: string; key: AgentKey },
): Promise<IssuedIdentity & { endpoint: string }> {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** A new certificate for the same agent id; `key` may be a new one. */
export function renewCertificate(_options: CallOptions & { endpoint: string; identity: Identity; key: AgentKey }): Promise<IssuedIdentity> {
  throw new CoralError({ code: "internal", message: "not built" });
}

export function registerAgent(
  _options: CallOptions & { endpoint: string; identity: Identity; request: MessageInitShape<typeof RegisterRequestSchema> },
): Promise<RegisterResponse> {
  throw new CoralError({ code: "internal", message: "not built" });
}
