/** Client authentication by plug-in. */

import { constants, createHash, publicEncrypt } from "node:crypto";
import { CoralError } from "../../base/errors.ts";

/** Throws for unsupported plug-ins. */
export function passwordProof(plugin: string, password: string, salt: Buffer): Buffer {
  if (password === "") return Buffer.alloc(0);
  const nonce = salt.subarray(0, 20);
  const secret = Buffer.from(password);
  if (plugin === "mysql_native_password") {
    const once = hash("sha1", secret);
    return xor(once, hash("sha1", Buffer.concat([nonce, hash("sha1", once)])));
  }
  if (plugin === "caching_sha2_password") {
    const once = hash("sha256", secret);
    return xor(once, hash("sha256", Buffer.concat([hash("sha256", once), nonce])));
  }
  throw new CoralError({
    code: "unauthenticated",
    message: `cannot log in to the database: the account uses "${plugin.replaceAll(/[^\w-]/g, "").slice(0, 40)}"; use an account with mysql_native_password or caching_sha2_password`,
  });
}

/** For servers that have not cached the password yet: encrypted with their public key. */
export function encryptedPassword(password: string, salt: Buffer, publicKeyPem: string): Buffer {
  const secret = Buffer.from(`${password}\0`);
  const mixed = Buffer.from(secret.map((byte, index) => byte ^ (salt[index % salt.length] ?? 0)));
  return publicEncrypt({ key: publicKeyPem, padding: constants.RSA_PKCS1_OAEP_PADDING }, mixed);
}

const hash = (name: "sha1" | "sha256", bytes: Buffer): Buffer => createHash(name).update(bytes).digest();

const xor = (a: Buffer, b: Buffer): Buffer => Buffer.from(a.map((byte, index) => byte ^ (b[index] ?? 0)));
