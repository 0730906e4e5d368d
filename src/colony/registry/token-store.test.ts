import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../../store/colony/index.ts";
import { type Engine, openEngine } from "../../store/engine/index.ts";
import type { CreateTokenRequest, TokenInfo } from "../../tools/index.ts";
import { parseToken } from "../../transport/index.ts";
import { TokenStore } from "./token-store.ts";

const minuteMs = 60_000;
let directory: string;
let engine: Engine;
let store: ColonyStore;
let tokens: TokenStore;
let nowMs: number;
const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-tokens-"));
  engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1, log: silentLogger });
  const file = join(directory, "c.duckdb");
  store = await openColonyStore(engine, { file, signals: [], maxBytes: 1024 ** 3, log: silentLogger, clock });
});
afterAll(async () => {
  await store.close();
  await engine.close();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => {
  nowMs = 1_800_000_000_000;
  tokens = new TokenStore({ store, clock, colonyId: "shop-dev-abcdef", caFingerprint: "ab".repeat(32), endpoints: () => ["127.0.0.1:1"] });
});

/** A join token; `more` overrides its properties. */
async function created(more: Partial<CreateTokenRequest> = {}): Promise<{ id: string; secret: string; token: string }> {
  const request = { kind: "join", name: "ci", permission: null, validForMs: minuteMs, uses: 1, ...more } as CreateTokenRequest;
  const { token, tokenId } = await tokens.create(request);
  return { id: tokenId, secret: parseToken(token, request.kind).secret, token };
}

const stateOf = async (id: string): Promise<TokenInfo["state"] | undefined> =>
  (await tokens.list()).find(({ tokenId }) => tokenId === id)?.state;

describe("a join token", () => {
  it("is rejected with a wrong secret or an unknown id, without consuming a use", async () => {
    const { id, secret } = await created();
    await expect(tokens.useJoin(id, "A".repeat(43), "web-1")).rejects.toThrow(
      "Cannot accept the join token: this colony has no such token; create one with `coral colony token create`",
    );
    await expect(tokens.useJoin("0123456789ab", secret, "web-1")).rejects.toThrow("this colony has no such token");
    await tokens.useJoin(id, secret, "web-1");
  });

  it("is rejected once it is used up, unless the same agent repeats its join", async () => {
    const { id, secret } = await created();
    await tokens.useJoin(id, secret, "web-1");
    await tokens.useJoin(id, secret, "web-1");
    await expect(tokens.useJoin(id, secret, "web-2")).rejects.toThrow("the token has no uses left");
    expect(await stateOf(id)).toBe("used-up");
  });

  it("is rejected after revocation", async () => {
    const { id, secret } = await created({ uses: 9 });
    await tokens.revoke(id);
    await expect(tokens.useJoin(id, secret, "web-1")).rejects.toMatchObject({
      code: "unauthenticated",
      message: expect.stringContaining("the token was revoked"),
    });
    expect(await stateOf(id)).toBe("revoked");
  });

  it("is rejected after expiry", async () => {
    const { id, secret } = await created({ uses: 9 });
    nowMs += minuteMs - 1;
    await tokens.useJoin(id, secret, "web-1");
    nowMs += 1;
    await expect(tokens.useJoin(id, secret, "web-2")).rejects.toThrow("the token has expired");
    expect(await stateOf(id)).toBe("expired");
  });

  it("is not accepted from a user", async () => {
    const { token, secret, id } = await created();
    await expect(tokens.permissionOf(token)).rejects.toMatchObject({ code: "unauthenticated" });
    const user = await created({ kind: "user", permission: "read" });
    await expect(tokens.useJoin(user.id, user.secret, "web-1")).rejects.toThrow("it is a user token");
    await tokens.useJoin(id, secret, "web-1");
  });
});

describe("a user token", () => {
  it("gives the permission and the name of its holder", async () => {
    const { token, id } = await created({ kind: "user", permission: "debug", name: "  on call " });
    expect(await tokens.permissionOf(token)).toEqual({ tokenId: id, holder: "on call", permission: "debug" });
  });
});
