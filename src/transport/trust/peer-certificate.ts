import { X509Certificate } from "node:crypto";
import type { DetailedPeerCertificate, TLSSocket } from "node:tls";

/**
 * What the peer has presented, leaf first; empty without a certificate. Not by getPeerX509Certificate(), which takes the leaf out of the
 * connection's own list: a second look would see another chain.
 */
export function presentedChain(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let current: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  // A root is its own issuer, and ours is at depth 1; deeper chains are not looked at.
  while (chain.length < 4 && current?.raw) {
    chain.push(new X509Certificate(current.raw));
    current = current.issuerCertificate === current ? undefined : current.issuerCertificate;
  }
  return chain;
}

/** The peer's own certificate. */
export function presentedCertificate(socket: TLSSocket): X509Certificate | undefined {
  // An empty object stands for "none", null for a connection that is gone.
  const certificate = socket.getPeerCertificate() as { raw?: Buffer } | null;
  return certificate?.raw && new X509Certificate(certificate.raw);
}
