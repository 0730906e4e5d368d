/**
 * Golden bucket layouts. Stored histograms are bucket numbers and counts without a layout, so changing a layout would change their meaning:
 * a new layout needs new columns.
 */

import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { bucketOf, bucketStartNs, coarseLayout, fineLayout, mergeHistograms, percentileNs, sparse } from "./latency-histogram.ts";

const latenciesNs = [0, 1_023, 1_024, 1_088, 1_000_000, 12_345_678, 1e9, 2 ** 32, 60e9, 68_719_476_735, 1e12];

describe.each([
  {
    name: "fine",
    layout: fineLayout,
    buckets: [0, 0, 1, 2, 159, 216, 318, 353, 412, 416, 416],
    firstStarts: [0, 1_024, 1_088, 1_152, 1_216],
    bucketCount: 417,
    startsSha256: "0715187aef336e1da615cb33739c86dabfbd56f3b85b50c415341b6b22fbb400",
  },
  {
    name: "coarse",
    layout: coarseLayout,
    buckets: [0, 0, 1, 1, 80, 108, 159, 177, 206, 208, 208],
    firstStarts: [0, 1_024, 1_152, 1_280, 1_408],
    bucketCount: 209,
    startsSha256: "d6770aea5d153027a1fced64e2e217167236b76883f597dc0c2fe6268bd4e71e",
  },
])("the $name bucket layout", ({ layout, buckets, firstStarts, bucketCount, startsSha256 }) => {
  it("stores a latency in the golden bucket", () => {
    expect(latenciesNs.map((ns) => bucketOf(layout, ns))).toEqual(buckets);
  });

  it("starts each bucket at the golden boundary", () => {
    expect(layout.bucketCount).toBe(bucketCount);
    const starts = Array.from({ length: bucketCount + 1 }, (_, bucket) => bucketStartNs(layout, bucket));
    expect(starts.slice(0, 5)).toEqual(firstStarts);
    expect(starts.at(-1)).toBe(2 ** 36);
    expect(createHash("sha256").update(starts.join("\n")).digest("hex")).toBe(startsSha256);
  });
});

describe("a stored histogram", () => {
  const stored = { lo: 159, counts: [3, 0, 1] };

  it("is the first used bucket and the counts from there to the last used one", () => {
    const counts = new Uint32Array(fineLayout.bucketCount);
    for (const ns of [1_000_000, 1_000_001, 999_999, 1_090_000]) counts[bucketOf(fineLayout, ns)]!++;
    expect(sparse(counts)).toEqual(stored);
    expect(sparse(new Uint32Array(4))).toEqual({ lo: 0, counts: [] });
  });

  it("reads back as the same percentiles and merges by bucket", () => {
    expect([0.5, 0.99].map((share) => percentileNs(fineLayout, stored, share))).toEqual([999_424, 1_081_344]);
    expect(mergeHistograms(stored, { lo: 158, counts: [2, 1] })).toEqual({ lo: 158, counts: [2, 4, 0, 1] });
  });
});
