/** The client side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding. */

import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { CoralError } from "../../base/errors.ts";

const derive = promisify(pbkdf2);
/** A server that requests more iterations tries to keep the client busy. Postgres uses 4,096. */
const maxIterations = 1_000_000;

export interface ScramExchange {
  /** The client-first message. */
  first: string;
  /** The client-final message for a server-first message. Throws if that is malformed. */
  proof(serverFirst: string): Promise<string>;
  /** Whether the server knows the password too; only then may it be trusted. */
  isServerProven(serverFinal: string): boolean;
}

export function startScram(password: string, nonce = randomBytes(18).toString("base64")): ScramExchange {
  const firstBare = `n=,r=${nonce}`;
  let serverSignature: Buffer = Buffer.alloc(0);
  return {
    first: `n,,${firstBare}`,
    proof: async (serverFirst) => {
      const fields = fieldsIn(serverFirst);
      const [fullNonce = "", salt = ""] = [fields.get("r"), fields.get("s")];
      const iterations = Number(fields.get("i"));
      const isValid = fullNonce.startsWith(nonce) && fullNonce.length > nonce.length && salt !== "";
      if (!isValid || !Number.isInteger(iterations) || iterations < 1 || iterations > maxIterations) throw invalid();
      // Postgres uses passwords that SASLprep rejects unchanged; for all others NFKC is equivalent.
      const salted = await derive(password.normalize("NFKC"), Buffer.from(salt, "base64"), iterations, 32, "sha256");
      const clientKey = hmac(salted, "Client Key");
      const withoutProof = `c=biws,r=${fullNonce}`;
      const signed = `${firstBare},${serverFirst},${withoutProof}`;
      const signature = hmac(createHash("sha256").update(clientKey).digest(), signed);
      serverSignature = hmac(hmac(salted, "Server Key"), signed);
      return `${withoutProof},p=${Buffer.from(clientKey.map((byte, index) => byte ^ (signature[index] ?? 0))).toString("base64")}`;
    },
    isServerProven: (serverFinal) => {
      const given = Buffer.from(fieldsIn(serverFinal).get("v") ?? "", "base64");
      return given.length === serverSignature.length && given.length > 0 && timingSafeEqual(given, serverSignature);
    },
  };
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function fieldsIn(message: string): Map<string, string> {
  return new Map(message.split(",").map((part) => [part.slice(0, 1), part.slice(2)]));
}

function invalid(): CoralError {
  return new CoralError({ code: "unavailable", message: "cannot log in to the database: malformed SCRAM message" });
}
