import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { seededRandom } from "../../base/damaged-texts.fixture.ts";
import { hasCommand } from "../host-tree.fixture.ts";
import { parseAuxiliaryVector, readKernelUnits } from "./auxiliary-vector.ts";

function vectorOf(...pairs: [bigint, bigint][]): Buffer {
  const bytes = Buffer.alloc(pairs.length * 16);
  for (const [index, [key, value]] of pairs.entries()) {
    bytes.writeBigUInt64LE(key, index * 16);
    bytes.writeBigUInt64LE(value, index * 16 + 8);
  }
  return bytes;
}

describe("parseAuxiliaryVector()", () => {
  it("finds page size and clock", () => {
    expect(parseAuxiliaryVector(vectorOf([33n, 1n], [6n, 65_536n], [17n, 1024n], [0n, 0n]), "LE")).toEqual({
      pageBytes: 65_536,
      ticksPerS: 1024,
    });
  });

  it("keeps the defaults if the vector is empty or malformed", () => {
    const usual = { pageBytes: 4096, ticksPerS: 100 };
    expect(parseAuxiliaryVector(Buffer.alloc(0))).toEqual(usual);
    expect(parseAuxiliaryVector(vectorOf([6n, 0n], [17n, 2n ** 63n]), "LE")).toEqual(usual);
    const random = seededRandom(15);
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(Array.from({ length: Math.floor(random() * 200) }, () => Math.floor(random() * 8)));
      expect(parseAuxiliaryVector(bytes).pageBytes).toBeGreaterThanOrEqual(1024);
    }
  });
});

describe("readKernelUnits()", () => {
  it.skipIf(!hasCommand("getconf"))("agrees with getconf(1)", () => {
    const getconf = (name: string): number => Number(execFileSync("getconf", [name], { encoding: "utf8" }));
    expect(readKernelUnits()).toEqual({ pageBytes: getconf("PAGESIZE"), ticksPerS: getconf("CLK_TCK") });
  });
});
