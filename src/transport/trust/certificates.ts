import { createHash, X509Certificate } from "node:crypto";
import type { DetailedPeerCertificate, TLSSocket } from "node:tls";

/** How far certificates are backdated, milliseconds, so that they stay valid if a clock is set back by up to a day. */
export const backdateMs = 86_400_000;

/** SHA-256 of a certificate's DER bytes, as 64 lower-case hexadecimal digits. */
export function fingerprintOf(certificateDer: Uint8Array): string {
  return createHash("sha256").update(certificateDer).digest("hex");
}

/**
 * The certificates that the peer presented, leaf first; empty without one. Does not use getPeerX509Certificate(), which removes the leaf
 * from the connection's own list, so that a second call would see another chain.
 */
export function presentedChain(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let current: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  // A root is its own issuer, and ours is at depth 1; deeper chains are ignored.
  while (chain.length < 4 && current?.raw) {
    chain.push(new X509Certificate(current.raw));
    current = current.issuerCertificate === current ? undefined : current.issuerCertificate;
  }
  return chain;
}

/** The peer's leaf certificate. */
export function presentedCertificate(socket: TLSSocket): X509Certificate | undefined {
  // An empty object means "none", null a closed connection.
  const certificate = socket.getPeerCertificate() as { raw?: Buffer } | null;
  return certificate?.raw && new X509Certificate(certificate.raw);
}
