/** The colony's own certificate authority: EC P-256, files `ca.key` (0600) and `ca.crt` in one directory. */

import { CoralError } from "../base/errors.ts";
import type { FileOwner } from "./private-file.ts";

export interface IssuedCertificate {
  /** PEM; the leaf first, then the authority's certificate. */
  certPem: string;
  notAfterMs: number;
  /** Hexadecimal. */
  serial: string;
}

export interface IssueAgentOptions {
  agentId: string;
  /** SubjectPublicKeyInfo, EC P-256; anything else is refused. */
  publicKeyDer: Uint8Array;
  /** Life from now, milliseconds. The start is set back a day on top of that, for clocks that are stepped. */
  ttlMs: number;
  nowMs: number;
}

export interface IssueColonyOptions {
  ttlMs: number;
  /** Default: now. */
  nowMs?: number;
  /** Names and addresses besides the SPIFFE id, for clients such as curl. Default localhost, 127.0.0.1, ::1. */
  hosts?: string[];
}

export interface Authority {
  colonyId: string;
  caPem: string;
  /** SHA-256 of the authority's certificate (DER), 64 hexadecimal digits; what tokens pin. */
  fingerprint: string;
  issueAgent(options: IssueAgentOptions): Promise<IssuedCertificate>;
  /** A fresh key and certificate for the colony's port. */
  issueColony(options: IssueColonyOptions): Promise<IssuedCertificate & { keyPem: string }>;
}

/** Makes the authority of a new colony. Refuses to overwrite one that is there. */
export function createAuthority(
  _directory: string,
  _colonyId: string,
  _options: { owner?: FileOwner; nowMs?: number } = {},
): Promise<Authority> {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** Reads the authority; says what is wrong when a file is missing, damaged, readable by others, or of another colony. */
export function openAuthority(_directory: string, _colonyId: string): Promise<Authority> {
  throw new CoralError({ code: "internal", message: "not built" });
}
