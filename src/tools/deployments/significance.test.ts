import { describe, expect, it } from "vitest";
import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { cliffsDelta, cohensH, fisherTest, holm, studentTail } from "./significance.ts";

const seededRandom = (seed: number): (() => number) => {
  const random = new SeededRandom(seed);
  return () => random.word() / 2 ** 32;
};

describe("studentTail()", () => {
  it.each([
    // From tables of the t distribution.
    [12.706, 1, 0.025],
    [2.228, 10, 0.025],
    [2.764, 10, 0.01],
    [1.96, 1e9, 0.025],
    [0, 5, 0.5],
  ])("of %f with %d degrees of freedom is %f", (t, freedom, tail) => expect(studentTail(t, freedom)).toBeCloseTo(tail, 4));

  it("is zero for impossible values", () => expect(studentTail(Number.POSITIVE_INFINITY, 4)).toBe(0));
});

describe("fisherTest()", () => {
  it("agrees with known tables", () => {
    // R: fisher.test(matrix(c(1, 9, 11, 3), 2)) and fisher.test(matrix(c(0, 1000, 6, 994), 2))
    expect(fisherTest({ hits: 1, total: 10 }, { hits: 11, total: 14 })).toBeCloseTo(0.002759, 5);
    expect(fisherTest({ hits: 0, total: 1_000 }, { hits: 6, total: 1_000 })).toBeCloseTo(0.0308, 3);
    expect(fisherTest({ hits: 5, total: 100 }, { hits: 5, total: 100 })).toBeCloseTo(1, 6);
  });
});

describe("holm()", () => {
  it("multiplies by the number of remaining tests and never decreases", () =>
    expect(holm([0.01, 0.04, 0.03, 0.005])).toEqual([0.03, 0.06, 0.06, 0.02]));
});

describe("cliffsDelta()", () => {
  it("equals the count over all pairs", () => {
    const random = seededRandom(5);
    const [a, b] = [200, 150].map((n) => Array.from({ length: n }, () => bucketOf(fineLayout, 1e6 * (1 + random() ** 3 * 40))));
    const histogram = (values: number[]) => {
      const counts = new Array<number>(fineLayout.bucketCount).fill(0);
      for (const value of values) counts[value]! += 1;
      return sparse(counts);
    };
    let sum = 0;
    for (const x of a!) for (const y of b!) sum += Math.sign(y - x);
    expect(cliffsDelta(histogram(a!), histogram(b!))).toBeCloseTo(sum / (200 * 150), 12);
    expect(cliffsDelta({ lo: 5, counts: [3] }, { lo: 9, counts: [4] })).toBe(1);
    expect(cliffsDelta({ lo: 0, counts: [] }, { lo: 9, counts: [4] })).toBe(0);
  });
});

describe("cohensH()", () => {
  it("is 0 for equal shares and keeps the sign of the change", () => {
    expect(cohensH(0.1, 0.1)).toBe(0);
    expect(cohensH(0.01, 0.05)).toBeCloseTo(0.2507, 3);
    expect(cohensH(0.05, 0.01)).toBeLessThan(0);
  });
});
