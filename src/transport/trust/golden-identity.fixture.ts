/** An authority, an agent and a colony, created by a released build. The keys are for tests only. */

import { hash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

export interface GoldenIdentity {
  colonyId: string;
  agentId: string;
  /** Of the authority's certificate. */
  fingerprint: string;
  caKey: string;
  caCertificate: string;
  agentKey: string;
  /** The leaf, then the authority's. */
  agentCertificate: string;
  colonyKey: string;
  colonyCertificate: string;
  /** The agent's proof of possession, base64. */
  proof: string;
}

export const goldenIdentity = JSON.parse(readFileSync(new URL("./identity.golden.json", import.meta.url), "utf8")) as GoldenIdentity;

/** When the certificates were issued. */
export const goldenIssuedMs = Date.UTC(2026, 0, 1);

/** The signed part of a certificate in hex, with zeros for what is random: its serial number, and its key if that is new. */
export function comparableCertificate(pem: string, isNewKey: boolean): string {
  const certificate = new X509Certificate(pem);
  const signedEnd = 8 + certificate.raw.readUInt16BE(6);
  const serial = certificate.serialNumber.toLowerCase();
  const signed = certificate.raw.subarray(4, signedEnd).toString("hex");
  return zeroed(isNewKey ? zeroed(signed, ...keyParts(certificate)) : signed, serial);
}

/** The public key, and its identifier if the certificate has one: SHA-1 of the key. */
function keyParts({ publicKey }: X509Certificate): string[] {
  const point = publicKey.export({ type: "spki", format: "der" }).subarray(-65);
  return [point.toString("hex"), hash("sha1", point, "hex")];
}

function zeroed(hex: string, ...parts: readonly string[]): string {
  return parts.reduce((text, part) => text.replaceAll(part, "0".repeat(part.length)), hex);
}
