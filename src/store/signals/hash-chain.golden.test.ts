/** Golden hashes of the chain format. Stored chains only verify if these stay; a new format needs a new prefix in `chainStart()`. */

import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ChainCheck, type ChainFields, type ChainRow, chainHash, chainStart } from "./hash-chain.ts";

const chainId = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";
const startHash = "5917e4a7d196f12d9f99984c88acfcfcb7abf665eb4aa8f3017feabbe8123e03";

const first: ChainFields = { entry: 1, text: 'ünï \u{1f41a} "quoted" \\ \n', count: 42, ratio: 0.25, flag: true, note: null };
const second: ChainFields = { entry: 2, text: "", count: -1, ratio: 1e21, flag: false, note: "später" };
const firstHash = "269525ebcccda4846de45341c7a3d1ac87a180474c56479de8d7202fd3d0eb9f";
const secondHash = "e9aab82043ca0e8944a898ba16ff7aca6f5dc7cf6dba90570a33919b9832237c";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

const stored: ChainRow[] = [
  { position: 1, entry: 1, previousHash: startHash, hash: firstHash, fields: first },
  { position: 2, entry: 2, previousHash: firstHash, hash: secondHash, fields: second },
];

describe("the hash chain format", () => {
  it("hashes the start from the prefix and the chain's id", () => {
    expect(chainStart(chainId)).toEqual({ entry: 0, hash: startHash });
    expect(sha256(`coral-chain/1\n${chainId}`)).toBe(startHash);
  });

  it("hashes an entry as the previous hash and its non-null fields, sorted by name, as JSON pairs", () => {
    expect(chainHash(startHash, first)).toBe(firstHash);
    expect(chainHash(firstHash, second)).toBe(secondHash);
    const pairs = String.raw`[["count",42],["entry",1],["flag",true],["ratio",0.25],["text","ünï 🐚 \"quoted\" \\ \n"]]`;
    expect(sha256(`${startHash}\n${pairs}`)).toBe(firstHash);
  });

  it("verifies a stored chain, and entries from before a field was added", () => {
    const check = new ChainCheck(chainStart(chainId));
    for (const row of stored) check.add({ ...row, fields: { ...row.fields, added_later: null } });
    expect(check.finish([], { entry: 2, hash: secondHash })).toEqual({
      entries: 2,
      firstEntry: 1,
      head: { entry: 2, hash: secondHash },
      problems: [],
      moreProblems: 0,
    });
  });
});
