import { describe, expect, it } from "vitest";
import { bucketMiddleNs, bucketOf, bucketStartNs, coarseLayout, fineLayout, percentileNs, sparse } from "./latency-histogram.ts";
import { SeededRandom } from "./seeded-random.fixture.ts";

describe.each([
  ["fine", fineLayout, 0.032],
  ["coarse", coarseLayout, 0.063],
])("bucketOf() in the %s layout", (_, layout, maxError) => {
  it("starts each bucket at bucketStartNs(), below and above 4.3 s", () => {
    for (let bucket = 1; bucket < layout.bucketCount; bucket++) {
      const startNs = bucketStartNs(layout, bucket);
      expect(bucketOf(layout, startNs)).toBe(bucket);
      expect(bucketOf(layout, Math.ceil(startNs) - 1)).toBe(bucket - 1);
    }
  });

  it("accepts any number", () => {
    expect([0, -5, Number.NaN, 1023].map((ns) => bucketOf(layout, ns))).toEqual([0, 0, 0, 0]);
    expect([1e11, 2 ** 53].map((ns) => bucketOf(layout, ns))).toEqual(Array(2).fill(layout.bucketCount - 1));
  });

  it("stays within the stated error", () => {
    const random = new SeededRandom(3);
    for (let round = 0; round < 20_000; round++) {
      const ns = Math.floor(1024 * 2 ** (random.below(26_000) / 1000));
      expect(Math.abs(bucketMiddleNs(layout, bucketOf(layout, ns)) - ns) / ns).toBeLessThan(maxError);
    }
  });
});

describe("percentileNs()", () => {
  it("returns the middle of the bucket that contains the percentile", () => {
    const counts = new Uint32Array(fineLayout.bucketCount);
    const bucket = bucketOf(fineLayout, 1e6);
    counts[bucket] = 90;
    counts[bucket + 40] = 10;
    expect(percentileNs(fineLayout, sparse(counts), 0.5)).toBe(bucketMiddleNs(fineLayout, bucket));
    expect(percentileNs(fineLayout, sparse(counts), 0.95)).toBe(bucketMiddleNs(fineLayout, bucket + 40));
    expect(percentileNs(fineLayout, { lo: 0, counts: [] }, 0.5)).toBeNull();
  });
});
