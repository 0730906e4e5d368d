import { describe, expect, it } from "vitest";
import { microseconds, nanosecondsBetween } from "./split-time.ts";

const words = (ns: bigint): [low: number, high: number] => [Number(ns & 0xffff_ffffn), Number(ns >> 32n)];

describe("microseconds()", () => {
  it.each([0n, 999n, 1_000n, 1_700_000_000_123_456_789n, 2n ** 32n - 1n, 2n ** 32n, 9_007_199_254_740_991_999n])(
    "is exact for %d",
    (ns) => {
      expect(BigInt(microseconds(...words(ns)))).toBe(ns / 1_000n);
    },
  );

  it.each([9_007_199_254_740_992_000n, 2n ** 63n, 2n ** 64n - 1n])("clamps %d to the range of a segment's times", (ns) => {
    expect(microseconds(...words(ns))).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe("nanosecondsBetween()", () => {
  it("is 0 when the end is before the start", () => {
    expect(nanosecondsBetween(...words(5n), ...words(4n))).toBe(0);
    expect(nanosecondsBetween(...words(2n ** 32n - 1n), ...words(2n ** 32n + 1n))).toBe(2);
  });
});
