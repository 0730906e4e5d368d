import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { createSecret, formatToken, hashSecret, parseToken, type Token } from "./token.ts";

const token: Token = {
  kind: "join",
  endpoints: ["127.0.0.1:9000", "colony.example:9000"],
  colonyId: "shop-test-0a1b2c",
  caFingerprint: "ab".repeat(32),
  tokenId: "t-1",
  secret: "s".repeat(43),
};

function failure(text: string, kind: "join" | "user" = "join"): CoralError {
  try {
    parseToken(text, kind);
  } catch (error) {
    if (error instanceof CoralError) return error;
    throw error;
  }
  throw new Error("was accepted");
}

test("parseToken() reads what formatToken() wrote, with white space around it", () => {
  expect(parseToken(`  ${formatToken(token)}\n`, "join")).toEqual(token);
  const user: Token = { ...token, kind: "user" };
  expect(parseToken(formatToken(user), "user")).toEqual(user);
});

test.each([
  ["", "it is empty"],
  ["   ", "it is empty"],
  ["coral_jo", "it is truncated"],
  ["coral_join_", "it is truncated"],
  ["hunter2", 'does not begin with "coral_join_"'],
  ["coral_join_§§§", "invalid characters"],
  [`coral_join_${Buffer.from("[]").toString("base64url")}`, "damaged: no endpoint"],
  [`coral_join_${Buffer.from("null").toString("base64url")}`, "damaged: no endpoint"],
  [`coral_join_${Buffer.from('{"e":["x"]}').toString("base64url")}`, "damaged: no colony id"],
  [`coral_join_${Buffer.from('{"e":["x"],"c":"y","f":"zz"}').toString("base64url")}`, "damaged: no CA fingerprint"],
  ["coral_join_AAAA", "damaged"],
  [formatToken({ ...token, kind: "user" }), "it is a user token, which lets people call the API"],
])("parseToken() reports what is wrong with %j", (text, why) => {
  const error = failure(text);
  expect(error.code).toBe("usage");
  expect(error.message).toContain(why);
});

test("parseToken() refuses a text of 10,000 characters", () => {
  expect(failure("x".repeat(10_000)).message).toContain("longer than");
});

test("parseToken() reports every truncated token as truncated, and never quotes it", () => {
  const text = formatToken(token);
  for (let length = 1; length < text.length; length++) {
    const { message } = failure(text.slice(0, length));
    expect(message).toContain("truncated");
    expect(message).not.toContain("sss");
  }
});

test("parseToken() refuses random damage with a CoralError (seeded)", () => {
  let seed = 42;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  const text = formatToken(token);
  for (let round = 0; round < 500; round++) {
    const characters = [...text];
    for (let i = 0; i <= random(4); i++) characters[random(characters.length)] = String.fromCharCode(random(0x250));
    try {
      parseToken(characters.join(""), "join");
    } catch (error) {
      expect(error).toBeInstanceOf(CoralError);
    }
  }
});

test("createSecret() returns 256 random bits, and hashSecret() distinguishes them", () => {
  const secret = createSecret();
  expect(secret).toMatch(/^[\w-]{43}$/);
  expect(createSecret()).not.toBe(secret);
  expect(hashSecret(secret)).toMatch(/^[0-9a-f]{64}$/);
  expect(hashSecret(`${secret}x`)).not.toBe(hashSecret(secret));
});
