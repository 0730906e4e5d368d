/** Join and user tokens of one colony: creates, checks and revokes them. Only hashes of secrets are stored. */

import { randomBytes } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { escapeText } from "../../base/escape-text.ts";
import { type ColonyStore, insertToken, listTokens, revokeToken, type TokenRecord, useToken } from "../../store/colony/index.ts";
import type { CreateTokenRequest, Permission, TokenCreated, TokenInfo } from "../../tools/index.ts";
import { createSecret, formatToken, hashSecret, parseToken } from "../../transport/index.ts";

export interface TokenStoreOptions {
  store: ColonyStore;
  clock: Clock;
  colonyId: string;
  caFingerprint: string;
  /** `host:port`, most likely first; read when a token is created, because the port may be assigned at start. */
  endpoints: () => string[];
}

const refusals: Record<"unknown" | "revoked" | "expired" | "used-up", string> = {
  unknown: "this colony has no such token",
  revoked: "the token was revoked",
  expired: "the token has expired",
  "used-up": "the token has no uses left",
};

/** How long the same agent may repeat a join. */
const repeatMs = 3_600_000;
const maxRemembered = 1_000;

export class TokenStore {
  readonly #options: TokenStoreOptions;
  /** Successful joins: token, secret and key → time, monotonic. */
  readonly #joins = new Map<string, number>();

  constructor(options: TokenStoreOptions) {
    this.#options = options;
  }

  async create(request: CreateTokenRequest): Promise<TokenCreated> {
    const { store, clock, colonyId, caFingerprint, endpoints } = this.#options;
    const secret = createSecret();
    const nowMs = clock.wallMs();
    const record: TokenRecord = {
      id: randomBytes(6).toString("hex"),
      kind: request.kind,
      secretSha256: hashSecret(secret),
      permission: request.permission ?? "",
      createdAt: nowMs * 1_000,
      expiresAt: (nowMs + request.validForMs) * 1_000,
      usesLeft: request.uses,
      revokedAt: null,
      note: request.name,
    };
    await insertToken(store, record);
    const token = formatToken({ kind: request.kind, endpoints: endpoints(), colonyId, caFingerprint, tokenId: record.id, secret });
    return { ...infoOf(record, nowMs), token };
  }

  async list(): Promise<TokenInfo[]> {
    const records = await listTokens(this.#options.store);
    return records.map((record) => infoOf(record, this.#options.clock.wallMs()));
  }

  async revoke(tokenId: string): Promise<string> {
    const nowMs = this.#options.clock.wallMs();
    if (!(await revokeToken(this.#options.store, tokenId, nowMs * 1_000))) {
      throw new CoralError({
        code: "not-found",
        message: `Cannot revoke token "${tokenId}": no such token; see \`coral colony token list\` for the ids`,
      });
    }
    return new Date(nowMs).toISOString();
  }

  /**
   * Consumes one use of a join token; throws `unauthenticated` with the reason. `claimant` is the agent with its key: it may repeat a join with a
   * used-up token for a while, because the answer may have been lost.
   */
  async useJoin(tokenId: string, secret: string, claimant: string): Promise<void> {
    const key = `${tokenId} ${hashSecret(secret)} ${claimant}`;
    const nowMs = this.#options.clock.monotonicMs();
    const isRepeated = nowMs - (this.#joins.get(key) ?? Number.NEGATIVE_INFINITY) < repeatMs;
    await this.#use("join", tokenId, secret, isRepeated);
    this.#joins.delete(key);
    if (this.#joins.size >= maxRemembered) this.#joins.delete(this.#joins.keys().next().value ?? "");
    this.#joins.set(key, nowMs);
  }

  /**
   * Permission of a `coral_user_…` token, and the name that audits and rules use for its holder: the token's note, or its id without one. Throws
   * `unauthenticated` with the reason.
   */
  async permissionOf(text: string): Promise<{ tokenId: string; holder: string; permission: Permission }> {
    let token: ReturnType<typeof parseToken>;
    try {
      token = parseToken(text, "user");
    } catch (error) {
      throw new CoralError({ code: "unauthenticated", message: CoralError.from(error).message, cause: error });
    }
    const { colonyId } = this.#options;
    if (token.colonyId !== colonyId) throw refused("user", `it is for colony "${token.colonyId}", this is colony "${colonyId}"`);
    const record = await this.#use("user", token.tokenId, token.secret, false);
    return { tokenId: record.id, holder: escapeText(record.note.trim()) || record.id, permission: record.permission as Permission };
  }

  async #use(kind: "join" | "user", tokenId: string, secret: string, mayRepeat: boolean): Promise<TokenRecord> {
    const { store, clock } = this.#options;
    const use = await useToken(store, tokenId, hashSecret(secret), clock.wallMs() * 1_000, mayRepeat);
    if (use.kind === "refused") throw refused(kind, refusals[use.reason]);
    if (use.token.kind !== kind) throw refused(kind, `it is a ${use.token.kind} token`);
    return use.token;
  }
}

function refused(kind: "join" | "user", reason: string): CoralError {
  const hint =
    kind === "join" ? "; create one with `coral colony token create`" : "; create one with `coral colony token create --kind user`";
  return new CoralError({ code: "unauthenticated", message: `Cannot accept the ${kind} token: ${reason}${hint}` });
}

function infoOf(record: TokenRecord, nowMs: number): TokenInfo {
  return {
    tokenId: record.id,
    kind: record.kind,
    name: record.note,
    permission: record.kind === "user" ? (record.permission as Permission) : null,
    createdAt: new Date(record.createdAt / 1_000).toISOString(),
    expiresAt: new Date(record.expiresAt / 1_000).toISOString(),
    usesLeft: record.usesLeft,
    state: stateOf(record, nowMs),
  };
}

function stateOf(record: TokenRecord, nowMs: number): TokenInfo["state"] {
  if (record.revokedAt !== null) return "revoked";
  if (record.expiresAt / 1_000 <= nowMs) return "expired";
  return record.usesLeft === 0 ? "used-up" : "usable";
}
