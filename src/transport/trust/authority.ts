/** The colony's own certificate authority: EC P-256, files `ca.key` (0600) and `ca.crt` in one directory. */

import { createPrivateKey, createPublicKey, randomBytes, webcrypto, X509Certificate } from "node:crypto";
import { access, readFile, rm, stat } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import { backdateMs, fingerprintOf } from "./certificates.ts";
import { type FileOwner, writePrivateFile } from "./private-file.ts";
import { assertId, formatSpiffeId } from "./spiffe-id.ts";

type X509 = typeof import("@peculiar/x509");

/** A certificate with its chain, ready for a TLS socket. */
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
  /** Lifetime from now, milliseconds. The start is also backdated by a day, for clocks that are stepped. */
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

/** Signs with a key that never leaves the colony. A request determines only the agent id and the public key of a certificate. */
export interface Authority {
  colonyId: string;
  caPem: string;
  /** SHA-256 of the authority's certificate (DER), 64 hexadecimal digits; tokens pin it. */
  fingerprint: string;
  issueAgent(options: IssueAgentOptions): Promise<IssuedCertificate>;
  /** A new key and certificate for the colony's port. */
  issueColony(options: IssueColonyOptions): Promise<IssuedCertificate & { keyPem: string }>;
}

/** 10 years. Replacing the authority means that every agent joins again. */
const authorityLifeMs = 10 * 365 * 86_400_000;
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Creates the authority of a new colony. Refuses to overwrite an existing one. */
export async function createAuthority(
  directory: string,
  colonyId: string,
  options: { owner?: FileOwner; nowMs?: number } = {},
): Promise<Authority> {
  assertId("colony id", colonyId);
  const { keyPath, certPath } = pathsIn(directory);
  for (const path of [keyPath, certPath]) {
    if (await exists(path)) {
      throw new CoralError({
        code: "already-exists",
        message: `Cannot create an authority in "${directory}": "${path}" exists already`,
        details: { path },
      });
    }
  }
  const x509 = await loadX509();
  const nowMs = options.nowMs ?? Date.now();
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: randomSerial(),
    name: [{ CN: [authorityName(colonyId)] }],
    notBefore: new Date(nowMs - backdateMs),
    notAfter: new Date(nowMs + authorityLifeMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  await writePrivateFile(keyPath, await exportKeyPem(keys.privateKey), options.owner);
  try {
    await writePrivateFile(certPath, pemOf(certificate), options.owner);
  } catch (error) {
    // A key without certificate would block the next attempt.
    await rm(keyPath, { force: true });
    throw error;
  }
  return authorityOf(colonyId, new X509Certificate(pemOf(certificate)), keys.privateKey);
}

/** Reads the authority; throws with the reason when a file is missing, damaged, readable by others, or of another colony. */
export async function openAuthority(directory: string, colonyId: string): Promise<Authority> {
  const { keyPath, certPath } = pathsIn(directory);
  const refuse = (code: "corrupt" | "invalid" | "not-permitted", path: string, why: string, cause?: unknown): CoralError =>
    new CoralError({ code, message: `Cannot open the authority of colony "${colonyId}": "${path}" ${why}`, cause, details: { path } });
  const keyPem = await readPart(keyPath, colonyId);
  const certPem = await readPart(certPath, colonyId);
  const mode = (await stat(keyPath)).mode & 0o777;
  if ((mode & 0o077) !== 0)
    throw refuse("not-permitted", keyPath, `can be read by others (mode 0${mode.toString(8)}); run chmod 600 on it`);

  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(certPem);
  } catch (error) {
    throw refuse("corrupt", certPath, "is not a certificate; restore it from a backup", error);
  }
  let key: webcrypto.CryptoKey;
  try {
    const keyObject = createPrivateKey(keyPem);
    if (!certificate.checkPrivateKey(keyObject)) throw refuse("corrupt", keyPath, `is not the key of "${certPath}"`);
    const der = keyObject.export({ type: "pkcs8", format: "der" });
    key = await webcrypto.subtle.importKey("pkcs8", der, algorithm, false, ["sign"]);
  } catch (error) {
    throw error instanceof CoralError
      ? error
      : refuse("corrupt", keyPath, "is not an EC P-256 private key; restore it from a backup", error);
  }
  if (certificate.subject !== `CN=${authorityName(colonyId)}`)
    throw refuse("invalid", certPath, `is of "${certificate.subject.replace(/^CN=/, "")}"`);
  return authorityOf(colonyId, certificate, key);
}

/** Signs with the key in memory; the files are not read again. */
function authorityOf(colonyId: string, certificate: X509Certificate, signingKey: webcrypto.CryptoKey): Authority {
  const caPem = certificate.toString();

  const issue = async (
    names: { type: "url" | "dns" | "ip"; value: string }[],
    usage: "clientAuth" | "serverAuth",
    publicKey: webcrypto.CryptoKey,
    life: { ttlMs: number; nowMs: number },
  ): Promise<IssuedCertificate> => {
    const x509 = await loadX509();
    const notAfterMs = Math.floor((life.nowMs + life.ttlMs) / 1_000) * 1_000;
    const serial = randomSerial();
    const leaf = await x509.X509CertificateGenerator.create({
      serialNumber: serial,
      subject: [{ CN: [names[0]?.value.replace(/^spiffe:\/\//, "").slice(0, 64) ?? ""] }],
      issuer: [{ CN: [authorityName(colonyId)] }],
      notBefore: new Date(life.nowMs - backdateMs),
      notAfter: new Date(notAfterMs),
      signingAlgorithm: algorithm,
      publicKey,
      signingKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[usage]]),
        new x509.SubjectAlternativeNameExtension(names),
        await x509.AuthorityKeyIdentifierExtension.create(new x509.X509Certificate(certificate.raw)),
        await x509.SubjectKeyIdentifierExtension.create(publicKey),
      ],
    });
    return { certPem: `${pemOf(leaf)}${caPem}`, notAfterMs, serial };
  };

  return {
    colonyId,
    caPem,
    fingerprint: fingerprintOf(certificate.raw),
    issueAgent: async ({ agentId, publicKeyDer, ttlMs, nowMs }) => {
      assertId("agent id", agentId);
      const publicKey = await importPublicKey(agentId, publicKeyDer);
      return issue([{ type: "url", value: formatSpiffeId({ kind: "agent", colonyId, agentId }) }], "clientAuth", publicKey, {
        ttlMs,
        nowMs,
      });
    },
    issueColony: async ({ ttlMs, nowMs = Date.now(), hosts = ["localhost", "127.0.0.1", "::1"] }) => {
      const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
      const names = hosts.map((host) => ({ type: isIP(host) ? ("ip" as const) : ("dns" as const), value: host }));
      const id = { type: "url" as const, value: formatSpiffeId({ kind: "colony", colonyId }) };
      const issued = await issue([id, ...names], "serverAuth", keys.publicKey, { ttlMs, nowMs });
      return { ...issued, keyPem: await exportKeyPem(keys.privateKey) };
    },
  };
}

/** Only at a colony, and only when a certificate is made: it costs 100 ms to load. */
async function loadX509(): Promise<X509> {
  await import("reflect-metadata");
  return import("@peculiar/x509");
}

async function importPublicKey(agentId: string, publicKeyDer: Uint8Array): Promise<webcrypto.CryptoKey> {
  try {
    // createPublicKey also checks that the point is on the curve.
    const key = createPublicKey({ key: Buffer.from(publicKeyDer), format: "der", type: "spki" });
    return await webcrypto.subtle.importKey("spki", key.export({ type: "spki", format: "der" }), algorithm, true, ["verify"]);
  } catch (error) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot issue a certificate for agent "${agentId}": its public key is not EC P-256`,
      cause: error,
    });
  }
}

/** 127 random bits: positive, never zero, no leading zero byte that encoders would have to drop. */
function randomSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString("hex");
}

async function exportKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key));
  return String(createPrivateKey({ key: der, format: "der", type: "pkcs8" }).export({ type: "pkcs8", format: "pem" }));
}

function pemOf(certificate: { rawData: ArrayBuffer }): string {
  return new X509Certificate(Buffer.from(certificate.rawData)).toString();
}

function authorityName(colonyId: string): string {
  return `coral colony ${colonyId}`;
}

function pathsIn(directory: string): { keyPath: string; certPath: string } {
  return { keyPath: join(directory, "ca.key"), certPath: join(directory, "ca.crt") };
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    // The cause will also fail the write, with its own message.
    return false;
  }
}

async function readPart(path: string, colonyId: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const missing = error instanceof Error && "code" in error && error.code === "ENOENT";
    throw new CoralError({
      code: missing ? "not-found" : "unavailable",
      message: `Cannot open the authority of colony "${colonyId}": "${path}" ${missing ? 'is missing; create the colony with "coral init"' : "cannot be read"}`,
      cause: error,
      details: { path },
    });
  }
}
