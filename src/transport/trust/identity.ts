/** The agent's identity: `key.pem`, `cert.pem`, `ca.pem` in one directory. Node's own crypto only: agents load no X.509 library. */

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify, X509Certificate } from "node:crypto";
import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import { backdateMs } from "./certificates.ts";
import { type FileOwner, writePrivateFile } from "./private-file.ts";
import { spiffeIdOf } from "./spiffe-id.ts";

/** An EC P-256 key pair. */
export interface AgentKey {
  /** PKCS #8. Never leaves the agent. */
  keyPem: string;
  /** SubjectPublicKeyInfo. */
  publicKeyDer: Buffer;
}

/** The certificate that an agent presents to its colony, and the authority that it trusts. */
export interface Identity {
  agentId: string;
  colonyId: string;
  keyPem: string;
  certPem: string;
  caPem: string;
  notBeforeMs: number;
  notAfterMs: number;
  /** Wall clock at which to renew the certificate: after two thirds of its life. */
  renewAtMs: number;
}

export type IdentityProblem = "missing" | "damaged" | "key-mismatch" | "other-authority" | "wrong-colony" | "not-yet-valid" | "expired";

export type IdentityCheck = { kind: "usable"; identity: Identity } | { kind: "unusable"; problem: IdentityProblem; message: string };

/** What a proof of possession covers, so that it cannot be used for another agent or colony. */
export interface ProofInput {
  colonyId: string;
  agentId: string;
  publicKeyDer: Uint8Array;
}

/** A new key, in memory only. */
export function generateKey(): AgentKey {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return agentKeyOf(privateKey);
}

/** The key in `directory`, or a new one stored there. Kept across failed joins, so that a retry uses the same key. */
export async function createKey(directory: string, owner?: FileOwner): Promise<AgentKey> {
  const { keyPath } = pathsIn(directory);
  const stored = await readIfThere(keyPath);
  if (stored !== undefined) return agentKeyOf(readKey(keyPath, stored));
  const key = generateKey();
  await writePrivateFile(keyPath, key.keyPem, owner);
  return key;
}

/** ECDSA-SHA256 over the text that colony.proto specifies for JoinRequest.proof. */
export function proofOf(keyPem: string, input: ProofInput): Buffer {
  return sign("sha256", proofText(input), keyPem);
}

/** The colony's side of `proofOf`; false also for a key that is not EC P-256. */
export function isProofValid(proof: Uint8Array, input: ProofInput): boolean {
  try {
    const key = createPublicKey({ key: Buffer.from(input.publicKeyDer), format: "der", type: "spki" });
    return isP256(key) && verify("sha256", proofText(input), key, proof);
  } catch {
    // Not a key.
    return false;
  }
}

/** Stores the result of Join or Renew. A crash at any point leaves a usable pair. */
export async function saveIdentity(
  directory: string,
  files: { keyPem: string; certPem: string; caPem: string },
  owner?: FileOwner,
): Promise<Identity> {
  const identity = identityOf(directory, files);
  const { keyPath, nextKeyPath, certPath, caPath } = pathsIn(directory);
  await writePrivateFile(caPath, files.caPem, owner);
  if ((await readIfThere(keyPath)) === files.keyPem) {
    await writePrivateFile(certPath, files.certPem, owner);
    return identity;
  }
  // Key and certificate cannot change in one step. The new key is stored next to the old one until its certificate is written; see readFiles.
  await writePrivateFile(nextKeyPath, files.keyPem, owner);
  await writePrivateFile(certPath, files.certPem, owner);
  await rename(nextKeyPath, keyPath);
  return identity;
}

/** Reads the files; undefined if the agent has not joined yet. Throws `corrupt` for invalid files. Does not validate the identity; see checkIdentity. */
export async function loadIdentity(directory: string): Promise<Identity | undefined> {
  const files = await readFiles(directory);
  return files && identityOf(directory, files);
}

/** Whether the stored identity can be used for `colonyId` (absent: any), with the exact reason if not. Never throws for invalid files. */
export async function checkIdentity(directory: string, expected: { colonyId?: string; nowMs: number }): Promise<IdentityCheck> {
  const unusable = (problem: IdentityProblem, why: string): IdentityCheck => {
    return { kind: "unusable", problem, message: `Cannot use the agent's identity in "${directory}": ${why}` };
  };
  let identity: Identity | undefined;
  try {
    identity = await loadIdentity(directory);
  } catch (error) {
    return { kind: "unusable", problem: "damaged", message: CoralError.from(error).message };
  }
  if (!identity) return unusable("missing", "it does not exist yet; join a colony with a join token");
  const leaf = new X509Certificate(identity.certPem);
  const ca = new X509Certificate(identity.caPem);
  if (!leaf.checkPrivateKey(createPrivateKey(identity.keyPem)))
    return unusable("key-mismatch", "the key does not match the certificate; join the colony again");
  if (!leaf.checkIssued(ca) || !leaf.verify(ca.publicKey)) {
    return unusable("other-authority", "the certificate was not signed by the stored authority; join the colony again");
  }
  if (expected.colonyId !== undefined && identity.colonyId !== expected.colonyId) {
    return unusable(
      "wrong-colony",
      `it is for colony "${identity.colonyId}", not "${expected.colonyId}"; join that colony with one of its tokens`,
    );
  }
  if (expected.nowMs < identity.notBeforeMs) {
    return unusable(
      "not-yet-valid",
      `the certificate is not valid before ${new Date(identity.notBeforeMs).toISOString()}; check the clock`,
    );
  }
  if (expected.nowMs > identity.notAfterMs) {
    return unusable("expired", `the certificate expired on ${new Date(identity.notAfterMs).toISOString()}; join the colony again`);
  }
  return { kind: "usable", identity };
}

interface IdentityFiles {
  keyPem: string;
  certPem: string;
  caPem: string;
}

/** A key without certificate is an agent that has not joined yet. */
async function readFiles(directory: string): Promise<IdentityFiles | undefined> {
  const { keyPath, nextKeyPath, certPath, caPath } = pathsIn(directory);
  const certPem = await readIfThere(certPath);
  if (certPem === undefined) return undefined;
  const caPem = await readIfThere(caPath);
  let keyPem = await readIfThere(keyPath);
  const nextKeyPem = await readIfThere(nextKeyPath);
  if (nextKeyPem !== undefined && isKeyOf(nextKeyPem, certPem)) {
    // saveIdentity crashed between certificate and key: complete the change.
    await rename(nextKeyPath, keyPath);
    keyPem = nextKeyPem;
  }
  if (caPem === undefined || keyPem === undefined) {
    throw damaged(caPem === undefined ? caPath : keyPath, "is missing; join the colony again");
  }
  return { keyPem, certPem, caPem };
}

/** Throws `corrupt` for files that are not a key or certificate. Does not compare them with each other. */
function identityOf(directory: string, files: IdentityFiles): Identity {
  const { keyPath, certPath, caPath } = pathsIn(directory);
  readKey(keyPath, files.keyPem);
  readCertificate(caPath, files.caPem);
  const leaf = readCertificate(certPath, files.certPem);
  const id = spiffeIdOf(leaf);
  if (id?.kind !== "agent") throw damaged(certPath, "is not an agent's certificate; join the colony again");
  const notBeforeMs = Date.parse(leaf.validFrom);
  const notAfterMs = Date.parse(leaf.validTo);
  const issuedAtMs = Math.min(notBeforeMs + backdateMs, notAfterMs);
  return {
    agentId: id.agentId,
    colonyId: id.colonyId,
    ...files,
    notBeforeMs,
    notAfterMs,
    renewAtMs: issuedAtMs + ((notAfterMs - issuedAtMs) * 2) / 3,
  };
}

function proofText(input: ProofInput): Buffer {
  return Buffer.from(`coral-join\n${input.colonyId}\n${input.agentId}\n${Buffer.from(input.publicKeyDer).toString("base64")}`);
}

function agentKeyOf(privateKey: KeyObject): AgentKey {
  return {
    keyPem: String(privateKey.export({ type: "pkcs8", format: "pem" })),
    publicKeyDer: createPublicKey(privateKey).export({ type: "spki", format: "der" }),
  };
}

function isP256(key: KeyObject): boolean {
  return key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1";
}

function isKeyOf(keyPem: string, certPem: string): boolean {
  try {
    return new X509Certificate(certPem).checkPrivateKey(createPrivateKey(keyPem));
  } catch {
    // One of them is damaged; the caller reads both again to find out which.
    return false;
  }
}

function readKey(path: string, pem: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch (error) {
    throw damaged(path, "is not a private key; remove it and join the colony again", error);
  }
  if (!isP256(key)) throw damaged(path, "is not an EC P-256 key; remove it and join the colony again");
  return key;
}

function readCertificate(path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw damaged(path, "is not a certificate; join the colony again", error);
  }
}

function damaged(path: string, why: string, cause?: unknown): CoralError {
  return new CoralError({ code: "corrupt", message: `Cannot read the agent's identity: "${path}" ${why}`, cause, details: { path } });
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw new CoralError({ code: "unavailable", message: `Cannot read "${path}": ${String(error)}`, cause: error, details: { path } });
  }
}

function pathsIn(directory: string): { keyPath: string; nextKeyPath: string; certPath: string; caPath: string } {
  return {
    keyPath: join(directory, "key.pem"),
    nextKeyPath: join(directory, "key.next.pem"),
    certPath: join(directory, "cert.pem"),
    caPath: join(directory, "ca.pem"),
  };
}
