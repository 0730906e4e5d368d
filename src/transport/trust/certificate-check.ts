/**
 * Checks a peer's certificate instead of the TLS library, which only accepts or rejects, so that a refusal can state the reason. Covers everything
 * that is relevant for a chain of exactly two: authority → leaf. The handshake has already proved that the peer has the key.
 */

import type { X509Certificate } from "node:crypto";
import { type SpiffeId, spiffeIdOf } from "./spiffe-id.ts";

const clientAuth = "1.3.6.1.5.5.7.3.2";
const serverAuth = "1.3.6.1.5.5.7.3.1";

export type AgentCertificate =
  | { kind: "agent"; agentId: string; notAfterMs: number }
  | { kind: "missing" }
  /** `reason` completes "the certificate …" and may be sent to the peer. */
  | { kind: "refused"; reason: string };

/** What the colony compares an agent's certificate with. */
export interface AgentCheck {
  authority: X509Certificate;
  colonyId: string;
  nowMs: number;
  isRevoked: (agentId: string) => boolean;
}

/** For the colony: identifies the agent. */
export function checkAgentCertificate(certificate: X509Certificate | undefined, check: AgentCheck): AgentCertificate {
  if (!certificate) return { kind: "missing" };
  const refused = (reason: string): AgentCertificate => ({ kind: "refused", reason });
  const chain = chainProblem(certificate, check.authority, check.nowMs);
  const id = spiffeIdOf(certificate);
  // For an agent of another colony this is more helpful than "unknown authority".
  if (id && id.colonyId !== check.colonyId) {
    return refused(
      `the certificate is for colony "${id.colonyId}", this is "${check.colonyId}"${chain?.kind === "authority" ? `; it is ${chain.text}` : ""}`,
    );
  }
  if (chain) return refused(`the certificate is ${chain.text}`);
  if (id?.kind !== "agent" || !hasUsage(certificate, clientAuth)) return refused(`the certificate is not an agent's (${describe(id)})`);
  if (check.isRevoked(id.agentId)) return refused(`the certificate of agent "${id.agentId}" is revoked`);
  return { kind: "agent", agentId: id.agentId, notAfterMs: Date.parse(certificate.validTo) };
}

/** What a client compares the colony's certificate with. */
export interface ColonyCheck {
  authority: X509Certificate;
  /** Absent: any colony of this authority, which has only one. */
  colonyId?: string | undefined;
  nowMs: number;
}

/** For clients: undefined if the certificate belongs to the expected colony, otherwise the reason. */
export function colonyCertificateProblem(certificate: X509Certificate, check: ColonyCheck): string | undefined {
  const chain = chainProblem(certificate, check.authority, check.nowMs);
  const id = spiffeIdOf(certificate);
  if (id && check.colonyId !== undefined && id.colonyId !== check.colonyId) {
    return `it is colony "${id.colonyId}", not "${check.colonyId}"${chain?.kind === "authority" ? `, and its certificate is ${chain.text}` : ""}`;
  }
  if (chain) return `its certificate is ${chain.text}`;
  if (id?.kind !== "colony" || !hasUsage(certificate, serverAuth)) return `its certificate is not a colony's (${describe(id)})`;
  return undefined;
}

interface ChainProblem {
  kind: "authority" | "time";
  /** Completes "the certificate is …". */
  text: string;
}

/** Signature, issuer and validity. Undefined if all are good. */
function chainProblem(leaf: X509Certificate, authority: X509Certificate, nowMs: number): ChainProblem | undefined {
  if (!authority.ca || !leaf.checkIssued(authority) || !leaf.verify(authority.publicKey)) {
    return { kind: "authority", text: `signed by another authority "${commonName(leaf.issuer)}"` };
  }
  for (const [whose, certificate] of [
    ["", leaf],
    ["the authority's: ", authority],
  ] as const) {
    if (nowMs < Date.parse(certificate.validFrom)) {
      return {
        kind: "time",
        text: `${whose}not valid before ${isoTime(certificate.validFrom)}; check the clocks (local time ${isoTime(nowMs)})`,
      };
    }
    if (nowMs > Date.parse(certificate.validTo)) {
      return {
        kind: "time",
        text: `${whose}expired on ${isoTime(certificate.validTo)}${whose ? "" : ` (local time ${isoTime(nowMs)})`}`,
      };
    }
  }
  return undefined;
}

/** Extended key usage. Node's `keyUsage` holds exactly these object ids. */
function hasUsage(certificate: X509Certificate, usage: string): boolean {
  return ((certificate.keyUsage as string[] | undefined) ?? []).includes(usage);
}

function describe(id: SpiffeId | undefined): string {
  if (!id) return "it names no SPIFFE id of Coral";
  return id.kind === "colony" ? "it is a colony's" : `it is agent "${id.agentId}"`;
}

/** Foreign text in our log: one line, bounded. */
function commonName(distinguishedName: string): string {
  const name = /(?:^|\n)CN=(.*)/.exec(distinguishedName)?.[1] ?? distinguishedName;
  return name.replaceAll(/[\p{Cc}"]/gu, " ").slice(0, 100);
}

function isoTime(time: string | number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
}
