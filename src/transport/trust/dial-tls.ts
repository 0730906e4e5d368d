/** Opens a TLS 1.3 connection to a colony and returns it only after checking the colony's certificate. */

import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { CoralError } from "../../base/errors.ts";
import { colonyCertificateProblem } from "./certificate-check.ts";
import { fingerprintOf, presentedChain } from "./certificates.ts";
import { parseEndpoint } from "./endpoint.ts";

/** How to authenticate the colony. */
export type ServerTrust =
  /** Members, which have the authority's certificate. */
  | { kind: "authority"; caPem: string; colonyId: string }
  /** Others, which have its SHA-256 from a token; the server must present the authority's certificate. */
  | { kind: "fingerprint"; caFingerprint: string; colonyId?: string | undefined };

export interface DialTlsOptions {
  /** `host:port`. */
  endpoint: string;
  trust: ServerTrust;
  alpn: "coral-tunnel/1" | "h2" | "http/1.1";
  clientCertificate?: { certPem: string; keyPem: string };
  signal?: AbortSignal | undefined;
  /** For connect and handshake. Default 10 s. */
  timeoutMs?: number | undefined;
}

/**
 * Returns the open connection; the caller owns it. Nothing has been written to it, so no secret can reach a wrong server. Throws `unavailable` if
 * nothing responds, and `unauthenticated` if the wrong server does.
 */
export async function dialTls(options: DialTlsOptions): Promise<TLSSocket> {
  const socket = await handshake(options);
  try {
    verifyServer(socket, options);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Connects without any check: `verifyServer` must follow. */
function handshake(options: DialTlsOptions): Promise<TLSSocket> {
  const { endpoint, alpn, trust, signal, clientCertificate, timeoutMs = 10_000 } = options;
  const { host, port } = parseEndpoint(endpoint);
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(cancelled(endpoint, signal));
      return;
    }
    const socket = connect({
      host,
      port,
      minVersion: "TLSv1.3",
      ALPNProtocols: [alpn],
      // verifyServer decides: it states the reason, checks the SPIFFE id instead of the host name, and always runs.
      rejectUnauthorized: false,
      // A colony may be reached by names and addresses that are not in its certificate: behind NAT or a load balancer, or after a move.
      checkServerIdentity: () => undefined,
      // Only the colony's authority is trusted, not the system's.
      ca: trust.kind === "authority" ? [trust.caPem] : [],
      ...(isIP(host) ? {} : { servername: host }),
      ...(clientCertificate ? { cert: clientCertificate.certPem, key: clientCertificate.keyPem } : {}),
    });
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.off("error", onError).off("secureConnect", onSecure).off("close", onClose);
    };
    const fail = (error: CoralError): void => {
      settle();
      // A late error of an abandoned socket must not end the process.
      socket.on("error", () => undefined);
      socket.destroy();
      reject(error);
    };
    const timer = setTimeout(() => fail(dialError("timeout", endpoint, `no response within ${timeoutMs} ms`)), timeoutMs);
    const onAbort = (): void => fail(cancelled(endpoint, signal));
    const onError = (error: Error): void => fail(explain(endpoint, error));
    const onClose = (): void => fail(dialError("unavailable", endpoint, "the connection was closed during the TLS handshake"));
    const onSecure = (): void => {
      settle();
      resolve(socket);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    socket.on("error", onError).on("secureConnect", onSecure).on("close", onClose);
  });
}

/** Throws `unauthenticated` with the reason. Must run before anything is written to the socket. */
function verifyServer(socket: TLSSocket, options: DialTlsOptions): void {
  const { endpoint, trust, alpn } = options;
  const refuse = (why: string): CoralError => dialError("unauthenticated", endpoint, why);
  const chain = presentedChain(socket);
  const leaf = chain[0];
  if (!leaf) throw refuse("the server presented no certificate");
  const authority =
    trust.kind === "authority" ? new X509Certificate(trust.caPem) : chain.find((one) => fingerprintOf(one.raw) === trust.caFingerprint);
  if (!authority) throw refuse("its authority does not match the token (other CA fingerprint): another colony, or a man in the middle");
  const problem = colonyCertificateProblem(leaf, { authority, colonyId: trust.colonyId, nowMs: Date.now() });
  if (problem !== undefined) throw refuse(problem);
  // Also require the TLS library's own check, if it knows the authority.
  if (trust.kind === "authority" && !socket.authorized) {
    throw refuse(`its certificate was refused (${String(socket.authorizationError)})`);
  }
  if (socket.alpnProtocol !== alpn)
    throw dialError("unsupported", endpoint, `the server does not support "${alpn}"; check that it is a colony of this version`);
}

const connectErrors: Record<string, string> = {
  ECONNREFUSED: "nothing is listening there; check that the colony is running",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  ETIMEDOUT: "no response",
  ENOTFOUND: "the host name is unknown",
  EAI_AGAIN: "the host name cannot be resolved at the moment",
  ECONNRESET: "the connection was reset",
  ERR_SSL_WRONG_VERSION_NUMBER: "the server does not use TLS on this port",
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: "the server does not support TLS 1.3",
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: "the server is not a colony (TLS alert: no application protocol)",
  ERR_SSL_UNSUPPORTED_PROTOCOL: "the server does not support TLS 1.3",
};

/** The CoralError for a socket error of a connection to a colony. It may occur after the handshake, when a TLS 1.3 server refuses the client. */
export function explain(endpoint: string, error: Error): CoralError {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  // Node tries all addresses of a name and reports them together.
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return explain(endpoint, error.errors[0]);
  const alert = /alert (?!number)([a-z ]+)/.exec(error.message)?.[1]?.trim();
  const known = connectErrors[code];
  if (known !== undefined) return dialError(code.startsWith("ERR_SSL") ? "unsupported" : "unavailable", endpoint, known, error);
  if (alert !== undefined) return dialError("unauthenticated", endpoint, `the server refused with TLS alert "${alert}"`, error);
  return dialError("unavailable", endpoint, error.message, error);
}

function dialError(
  code: "unavailable" | "unauthenticated" | "unsupported" | "timeout",
  endpoint: string,
  why: string,
  cause?: unknown,
): CoralError {
  return new CoralError({ code, message: `Cannot connect to the colony at "${endpoint}": ${why}`, cause, details: { endpoint } });
}

function cancelled(endpoint: string, signal: AbortSignal | undefined): CoralError {
  return new CoralError({ code: "cancelled", message: `Cannot connect to the colony at "${endpoint}": cancelled`, cause: signal?.reason });
}
