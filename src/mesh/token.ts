/** Tokens that people carry: `coral_join_…` lets an agent join, `coral_user_…` lets a person or assistant call the API. */

import { CoralError } from "../base/errors.ts";

export type TokenKind = "join" | "user";

export interface Token {
  kind: TokenKind;
  /** `host:port` of the colony, most likely first; at least one. */
  endpoints: string[];
  colonyId: string;
  /** SHA-256 of the colony's CA certificate, 64 hexadecimal digits. */
  caFingerprint: string;
  /** Public name of the token, for lists and revocation. */
  tokenId: string;
  /** Never logged; the colony stores only hashSecret() of it. */
  secret: string;
}

/** 256 random bits, base64url. */
export function createSecret(): string {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** SHA-256 of the secret, hexadecimal: what a colony stores. */
export function hashSecret(_secret: string): string {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** Compares in constant time. */
export function isSecretOf(_secret: string, _hash: string): boolean {
  throw new CoralError({ code: "internal", message: "not built" });
}

export function formatToken(_token: Token): string {
  throw new CoralError({ code: "internal", message: "not built" });
}

/** Throws `usage` that says what is wrong: empty, cut off, of the other kind, or no token at all. The text itself is never quoted. */
export function parseToken(_text: string, _kind: TokenKind): Token {
  throw new CoralError({ code: "internal", message: "not built" });
}
