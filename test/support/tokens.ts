/** Content of a token: e endpoints, c colony id, f CA fingerprint, i token id, s secret. */
export interface TokenParts {
  e: string[];
  c: string;
  f: string;
  i: string;
  s: string;
}

/** A copy of the token with some parts replaced. */
export function changedToken(token: string, change: (parts: TokenParts) => Partial<TokenParts>): string {
  const [, prefix = "", payload = ""] = /^(coral_(?:join|user)_)(.*)$/.exec(token) ?? [];
  const parts = JSON.parse(Buffer.from(payload, "base64url").toString()) as TokenParts;
  return prefix + Buffer.from(JSON.stringify({ ...parts, ...change(parts) })).toString("base64url");
}
