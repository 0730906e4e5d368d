import { describe, expect, it } from "vitest";
import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { type Cell, cliffsDelta, cohensH, compareMeans, compareShares, fisherTest, holm, studentTail } from "./statistics.ts";

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

  it("is nothing for what cannot happen", () => expect(studentTail(Number.POSITIVE_INFINITY, 4)).toBe(0));
});

describe("fisherTest()", () => {
  it("agrees with known tables", () => {
    // R: fisher.test(matrix(c(1, 9, 11, 3), 2)) and fisher.test(matrix(c(0, 1000, 6, 994), 2))
    expect(fisherTest({ hits: 1, total: 10 }, { hits: 11, total: 14 })).toBeCloseTo(0.002759, 5);
    expect(fisherTest({ hits: 0, total: 1_000 }, { hits: 6, total: 1_000 })).toBeCloseTo(0.0308, 3);
    expect(fisherTest({ hits: 5, total: 100 }, { hits: 5, total: 100 })).toBeCloseTo(1, 6);
  });
});

describe("compareMeans()", () => {
  it("agrees with a known Welch test", () => {
    const result = compareMeans(
      [27.5, 21, 19, 23.6, 17, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19, 21.7, 21.4],
      [27.1, 22, 20.8, 23.4, 23.4, 23.5, 25.8, 22, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 25.2],
    );
    expect(result?.pValue).toBeCloseTo(0.0101, 2);
  });

  it("needs three values on each side", () => expect(compareMeans([1, 2], [1, 2, 3])).toBeNull());
});

describe("holm()", () => {
  it("multiplies by what is left, never falling", () => expect(holm([0.01, 0.04, 0.03, 0.005])).toEqual([0.03, 0.06, 0.06, 0.02]));
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
  it("is 0 for equal shares and keeps the sign", () => {
    expect(cohensH(0.1, 0.1)).toBe(0);
    expect(cohensH(0.01, 0.05)).toBeCloseTo(0.2507, 3);
    expect(cohensH(0.05, 0.01)).toBeLessThan(0);
  });
});

describe("compareShares()", () => {
  const cellsOf = (random: () => number, cells: number, total: number, share: (cell: number) => number): Cell[] =>
    Array.from({ length: cells }, (_, cell) => {
      const p = share(cell);
      let hits = 0;
      for (let index = 0; index < total; index++) if (random() < p) hits++;
      return { hits, total };
    });

  it("finds a share that doubled, with its size", () => {
    const random = seededRandom(1);
    const test = compareShares(
      cellsOf(random, 30, 100, () => 0.05),
      cellsOf(random, 30, 100, () => 0.1),
    );
    expect(test?.pValue).toBeLessThan(1e-6);
    expect(test?.before).toBeCloseTo(0.05, 1);
    expect(test?.after).toBeCloseTo(0.1, 1);
  });

  it("keeps to its rate of false finds, also when failures come in bursts", () => {
    const random = seededRandom(2);
    let [plain, bursty] = [0, 0];
    const rounds = 1_000;
    for (let round = 0; round < rounds; round++) {
      const even = (): Cell[] => cellsOf(random, 12, 60, () => 0.05);
      // Whole cells are bad together: a test that knows no cells would cry wolf half of the time.
      const burst = (): Cell[] => cellsOf(random, 30, 60, () => (random() < 0.2 ? 0.2 : 0.01));
      if ((compareShares(even(), even())?.pValue ?? 1) < 0.05) plain++;
      if ((compareShares(burst(), burst())?.pValue ?? 1) < 0.05) bursty++;
    }
    expect(plain / rounds).toBeLessThan(0.065);
    expect(bursty / rounds).toBeLessThan(0.07);
  });

  it("returns nothing for too few cells, and finds nothing where nothing changed", () => {
    const cell = { hits: 1, total: 10 };
    expect(compareShares([cell, cell], [cell, cell, cell])).toBeNull();
    const none = { hits: 0, total: 10 };
    expect(compareShares([none, none, none], [none, none, none])?.pValue).toBe(1);
  });
});
