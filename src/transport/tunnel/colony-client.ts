/** The agent's calls to its colony: Join, Renew, Register. One short-lived connection per call. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import { ColonyService, type RegisterRequestSchema, type RegisterResponse } from "../../proto/coral/colony/v1/colony_pb.ts";
import { fromConnectError } from "../http/rpc-errors.ts";
import { dialTls, explain, type ServerTrust } from "../trust/dial-tls.ts";
import { type AgentKey, type Identity, proofOf } from "../trust/identity.ts";
import type { Token } from "../trust/token.ts";
import { createClientSession, createSessionTransport } from "./session-transport.ts";

export interface CallOptions {
  signal: AbortSignal;
  /** For the call, including connect. Default 10 s. */
  timeoutMs?: number;
}

/** What Join and Renew return. `certPem` is the leaf with its chain. */
export interface IssuedIdentity {
  certPem: string;
  caPem: string;
}

/** Replies are certificates and small settings. */
const maxReplyBytes = 1024 * 1024;

/** First contact. Tries the token's endpoints in order; the colony is authenticated by the CA fingerprint in the token. */
export async function joinColony(
  options: CallOptions & { token: Token; agentId: string; key: AgentKey },
): Promise<IssuedIdentity & { endpoint: string }> {
  const { token, agentId, key } = options;
  const { colonyId, caFingerprint } = token;
  const { publicKeyDer } = key;
  const proof = proofOf(key.keyPem, { colonyId, agentId, publicKeyDer });
  let firstError: CoralError | undefined;
  for (const endpoint of token.endpoints) {
    try {
      const connection = { ...options, endpoint, trust: { kind: "fingerprint", caFingerprint, colonyId } as const };
      const reply = await callColony(connection, (client, signal) =>
        client.join({ colonyId, agentId, token: token.secret, tokenId: token.tokenId, publicKey: publicKeyDer, proof }, { signal }),
      );
      return { certPem: reply.certificate, caPem: reply.caCertificate, endpoint };
    } catch (error) {
      firstError ??= CoralError.from(error);
      // Try the next endpoint only if this one cannot be reached: a refusal would be the same at all of them.
      if (firstError.code !== "unavailable" && firstError.code !== "timeout") throw firstError;
    }
  }
  throw firstError ?? new CoralError({ code: "invalid", message: "Cannot join: the token has no endpoint" });
}

/** A new certificate for the same agent id; `key` may be a new one. */
export async function renewCertificate(
  options: CallOptions & { endpoint: string; identity: Identity; key: AgentKey },
): Promise<IssuedIdentity> {
  const { identity, key } = options;
  const { colonyId, agentId } = identity;
  const proof = proofOf(key.keyPem, { colonyId, agentId, publicKeyDer: key.publicKeyDer });
  const reply = await callAsMember(options, (client, signal) => client.renew({ publicKey: key.publicKeyDer, proof }, { signal }));
  return { certPem: reply.certificate, caPem: reply.caCertificate };
}

/** Announces the agent's facts. The colony replies with its settings for the agent. */
export function registerAgent(
  options: CallOptions & { endpoint: string; identity: Identity; request: MessageInitShape<typeof RegisterRequestSchema> },
): Promise<RegisterResponse> {
  return callAsMember(options, (client, signal) => client.register(options.request, { signal }));
}

type Call<T> = (client: Client<typeof ColonyService>, signal: AbortSignal) => Promise<T>;

function callAsMember<T>(options: CallOptions & { endpoint: string; identity: Identity }, call: Call<T>): Promise<T> {
  const { identity } = options;
  const trust: ServerTrust = { kind: "authority", caPem: identity.caPem, colonyId: identity.colonyId };
  return callColony({ ...options, trust, clientCertificate: identity }, call);
}

interface Connection extends CallOptions {
  endpoint: string;
  trust: ServerTrust;
  clientCertificate?: { certPem: string; keyPem: string };
}

/** Connects, makes one call, and disconnects. Errors name the endpoint. */
async function callColony<T>(options: Connection, call: Call<T>): Promise<T> {
  const { endpoint, timeoutMs = 10_000 } = options;
  const deadline = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([options.signal, deadline]);
  const socket = await dialTls({ ...options, alpn: "h2", timeoutMs });
  const session = createClientSession(socket);
  // A TLS 1.3 server refuses our certificate only after the handshake. Keep the alert, because the call itself just sees a closed stream.
  let lost: Error | undefined;
  session.on("error", (error) => {
    lost ??= error;
  });
  try {
    const transport = createSessionTransport(session, { maxReplyBytes, closedReason: () => `the connection to "${endpoint}" was lost` });
    return await call(createClient(ColonyService, transport), signal);
  } catch (error) {
    if (lost) throw explain(endpoint, lost);
    if (deadline.aborted) {
      throw new CoralError({
        code: "timeout",
        message: `Cannot call the colony at "${endpoint}": no response within ${timeoutMs} ms`,
        cause: error,
      });
    }
    throw fromConnectError(error);
  } finally {
    session.destroy();
  }
}
