/** Golden tokens: users keep them in files and secrets, and a colony stores the hash of their secret. */

import { describe, expect, it } from "vitest";
import { formatToken, hashSecret, parseToken, type Token } from "./token.ts";

const common = {
  endpoints: ["colony.example:9443", "203.0.113.7:9443"],
  colonyId: "shop-prod-0a1b2c",
  caFingerprint: "20c374752ebe4277a9fddc28340f59856754d966d0d0c4ee00fc3000d16af0f7",
  tokenId: "tok-1a2b3c",
  secret: "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA",
};
const json = `{"e":["colony.example:9443","203.0.113.7:9443"],"c":"shop-prod-0a1b2c","f":"${common.caFingerprint}","i":"tok-1a2b3c","s":"${common.secret}"}`;

describe.each<[Token["kind"], string]>([
  [
    "join",
    "coral_join_eyJlIjpbImNvbG9ueS5leGFtcGxlOjk0NDMiLCIyMDMuMC4xMTMuNzo5NDQzIl0sImMiOiJzaG9wLXByb2QtMGExYjJjIiwiZiI6IjIwYzM3NDc1MmViZTQyNzdhOWZkZGMyODM0MGY1OTg1Njc1NGQ5NjZkMGQwYzRlZTAwZmMzMDAwZDE2YWYwZjciLCJpIjoidG9rLTFhMmIzYyIsInMiOiJxODN2RWpSV2VKQ3J6ZThTTkZaNGtLdk43eEkwVm5pUXE4M3ZFalJXZUpBIn0",
  ],
  [
    "user",
    "coral_user_eyJlIjpbImNvbG9ueS5leGFtcGxlOjk0NDMiLCIyMDMuMC4xMTMuNzo5NDQzIl0sImMiOiJzaG9wLXByb2QtMGExYjJjIiwiZiI6IjIwYzM3NDc1MmViZTQyNzdhOWZkZGMyODM0MGY1OTg1Njc1NGQ5NjZkMGQwYzRlZTAwZmMzMDAwZDE2YWYwZjciLCJpIjoidG9rLTFhMmIzYyIsInMiOiJxODN2RWpSV2VKQ3J6ZThTTkZaNGtLdk43eEkwVm5pUXE4M3ZFalJXZUpBIn0",
  ],
])("a %s token", (kind, golden) => {
  it("is written as its prefix and JSON in base64url", () => {
    expect(formatToken({ kind, ...common })).toBe(golden);
    expect(Buffer.from(golden.slice(`coral_${kind}_`.length), "base64url").toString()).toBe(json);
  });

  it("is read back", () => {
    expect(parseToken(golden, kind)).toEqual({ kind, ...common });
  });
});

describe("hashSecret()", () => {
  it("returns the hash that colonies have stored", () => {
    expect(hashSecret(common.secret)).toBe("53c90ed83c02ae89d5aa748975ed3b64af5e67792f82a5a9792659be215a5255");
  });
});
