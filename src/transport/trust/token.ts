/** Tokens for users: `coral_join_…` lets an agent join, `coral_user_…` lets a person or assistant call the API. */

import { createHash, randomBytes } from "node:crypto";
import { CoralError } from "../../base/errors.ts";

export type TokenKind = "join" | "user";

/** Everything that a client needs to reach a colony and to authenticate it. */
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

/** Characters. A token with several endpoints has a few hundred. */
const maxTokenLength = 8_192;
const names: Record<TokenKind, string> = { join: "join token", user: "user token" };
const uses: Record<TokenKind, string> = { join: "lets agents join", user: "lets people call the API" };

/** 256 random bits, base64url. */
export function createSecret(): string {
  return randomBytes(32).toString("base64url");
}

/** SHA-256 of the secret, hexadecimal: what a colony stores. The secret is random, so no salt or slow hash is needed. */
export function hashSecret(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** A prefix and base64url of compact JSON: no character needs quoting in a shell. */
export function formatToken(token: Token): string {
  const { endpoints: e, colonyId: c, caFingerprint: f, tokenId: i, secret: s } = token;
  return `coral_${token.kind}_${Buffer.from(JSON.stringify({ e, c, f, i, s })).toString("base64url")}`;
}

/** Throws `usage` with the problem: empty, truncated, of the other kind, or not a token. Never quotes the text itself. */
export function parseToken(text: string, kind: TokenKind): Token {
  const trimmed = text.trim();
  if (trimmed === "") throw bad(kind, "it is empty");
  if (trimmed.length > maxTokenLength) throw bad(kind, `it is longer than ${maxTokenLength} characters`);
  const [, foundKind, payload = ""] = /^coral_(join|user)_(.*)$/s.exec(trimmed) ?? [];
  if (foundKind === undefined) {
    if (`coral_${kind}_`.startsWith(trimmed)) throw bad(kind, "it is truncated; copy the whole text");
    throw bad(kind, `it does not begin with "coral_${kind}_"`);
  }
  if (foundKind !== kind) {
    const other: TokenKind = kind === "join" ? "user" : "join";
    throw bad(kind, `it is a ${names[other]}, which ${uses[other]}`);
  }
  if (payload === "") throw bad(kind, "it is truncated; copy the whole text");
  if (!/^[A-Za-z0-9_-]+$/.test(payload)) throw bad(kind, "it has invalid characters; copy it without quotes and line breaks");
  const json = Buffer.from(payload, "base64url").toString("utf8");
  // The JSON closes with its last character, so a truncated one is not closed.
  if ((json.startsWith('{"') || '{"'.startsWith(json)) && !json.endsWith("}")) throw bad(kind, "it is truncated; copy the whole text");
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    // The parser's message would quote parts of the token.
    throw bad(kind, "its content is damaged; copy it again");
  }
  return tokenOf(kind, value);
}

function tokenOf(kind: TokenKind, value: unknown): Token {
  const { e, c, f, i, s } = (value ?? {}) as Record<"e" | "c" | "f" | "i" | "s", unknown>;
  const isText = (part: unknown): part is string => typeof part === "string" && part !== "";
  if (!Array.isArray(e) || e.length === 0 || !e.every(isText)) throw bad(kind, "its content is damaged: no endpoint");
  if (!isText(c)) throw bad(kind, "its content is damaged: no colony id");
  if (!isText(f) || !/^[0-9a-f]{64}$/.test(f)) throw bad(kind, "its content is damaged: no CA fingerprint");
  if (!isText(i)) throw bad(kind, "its content is damaged: no token id");
  if (!isText(s)) throw bad(kind, "its content is damaged: no secret");
  return { kind, endpoints: e, colonyId: c, caFingerprint: f, tokenId: i, secret: s };
}

function bad(kind: TokenKind, why: string): CoralError {
  return new CoralError({ code: "usage", message: `Cannot read the ${names[kind]}: ${why}` });
}
