/** The agent's identity: `key.pem`, `cert.pem`, `ca.pem` in one directory. Node's own crypto only: agents load no X.509 library. */

import { CoralError } from "../base/errors.ts";
import type { FileOwner } from "./private-file.ts";

export interface AgentKey {
  /** PKCS #8. Never leaves the agent. */
  keyPem: string;
  /** SubjectPublicKeyInfo. */
  publicKeyDer: Buffer;
}

/** What an agent shows to its colony, and what it trusts. */
export interface Identity {
  agentId: string;
  colonyId: string;
  keyPem: string;
  certPem: string;
  caPem: string;
  notBeforeMs: number;
  notAfterMs: number;
  /** Wall clock at which a new certificate should be asked for: two thirds of its life. */
  renewAtMs: number;
}

export type IdentityProblem = "missing" | "damaged" | "key-mismatch" | "other-authority" | "wrong-colony" | "not-yet-valid" | "expired";

export type IdentityCheck = { kind: "usable"; identity: Identity } | { kind: "unusable"; problem: IdentityProblem; message: string };

export interface ProofInput {
  colonyId: string;
  agentId: string;
  publicKeyDer: Uint8Array;
}

/** The key in `directory`, or a new one stored there. Kept over failed joins, so that a retry shows the same key. */
export function createKey(_directory: string, _owner?: FileOwner): Promise<AgentKey> {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** ECDSA-SHA256 over the text that colony.proto states for JoinRequest.proof. */
export function proofOf(_keyPem: string, _input: ProofInput): Buffer {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** The colony's side of `proofOf`; false also for a key that is not EC P-256. */
export function isProofValid(_proof: Uint8Array, _input: ProofInput): boolean {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** Stores what Join or Renew returned. A crash at any point leaves a usable pair. */
export function saveIdentity(
  _directory: string,
  _files: { keyPem: string; certPem: string; caPem: string },
  _owner?: FileOwner,
): Promise<Identity> {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** Reads the files; undefined when the agent has not joined yet. Throws `corrupt` when they cannot be read. Does not judge: see checkIdentity. */
export function loadIdentity(_directory: string): Promise<Identity | undefined> {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** Says whether the stored identity can be used for `colonyId` (any when absent), or exactly why not. Never throws for bad files. */
export function checkIdentity(_directory: string, _expected: { colonyId?: string; nowMs: number }): Promise<IdentityCheck> {
  throw new CoralError({ code: "internal", message: "not built" });
}
