import { createHash } from "node:crypto";

/** SHA-256 of a certificate's DER bytes, 64 lower-case hexadecimal digits. */
export function fingerprintOf(certificateDer: Uint8Array): string {
  return createHash("sha256").update(certificateDer).digest("hex");
}
