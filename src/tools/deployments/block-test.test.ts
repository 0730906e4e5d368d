import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { compareBlocks, median, middleMean } from "./block-test.ts";

/** A series whose level wanders: each value keeps `remains` of the deviation before. */
function wandering(seed: number, count: number, remains: number, level = 0): number[] {
  const random = new SeededRandom(seed);
  const uniform = (): number => (random.word() + 0.5) / 2 ** 32;
  const normal = (): number => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  let deviation = normal();
  return Array.from({ length: count }, () => {
    deviation = remains * deviation + Math.sqrt(1 - remains ** 2) * normal();
    return level + deviation;
  });
}

describe("compareBlocks()", () => {
  it("keeps its false positive rate on autocorrelated series", () => {
    for (const remains of [0, 0.6, 0.9]) {
      let found = 0;
      for (let seed = 1; seed <= 400; seed++) {
        const series = wandering(seed, 105, remains);
        if (compareBlocks(series.slice(0, 90), series.slice(90))!.pValue < 0.01) found++;
      }
      // Four of 400 is the nominal rate; a test of single values would find more than a hundred at a correlation of 0.9.
      expect(found, `remains ${remains}`).toBeLessThanOrEqual(10);
    }
  });

  it("finds a level shift larger than the usual variation", () => {
    const test = compareBlocks(wandering(1, 60, 0.5), wandering(2, 15, 0.5, 6))!;
    expect(test.pValue).toBeLessThan(1e-4);
    expect(test.after - test.before).toBeGreaterThan(4);
    expect(test.persistent).toBe(1);
  });

  it("does not report a continued trend as a change", () => {
    const rising = Array.from({ length: 75 }, (_, index) => index / 10 + (index % 3) / 20);
    expect(compareBlocks(rising.slice(0, 60), rising.slice(60))!.pValue).toBeGreaterThan(0.05);
    const jumping = rising.map((value, index) => (index < 60 ? value : value + 60));
    expect(compareBlocks(jumping.slice(0, 60), jumping.slice(60))!.pValue).toBeLessThan(1e-3);
  });

  it("reports the largest deviation of a stretch before, and the share of blocks after that stay changed", () => {
    const before = Array.from({ length: 40 }, (_, index) => (index >= 20 && index < 24 ? 5 : index % 2));
    const burst = compareBlocks(before, [5, 5, 0, 1])!;
    expect(burst.usual).toBe(4);
    expect(burst.persistent).toBe(0.5);
    expect(burst.isProven).toBe(true);
    expect(compareBlocks(before.slice(0, 12), [5, 5, 5, 5])!.isProven).toBe(false);
  });

  it("needs six blocks before and four after", () => {
    expect(compareBlocks([1, 2, 3, 4, 5], [1, 2, 3, 4])).toBeNull();
    expect(compareBlocks([1, 2, 3, 4, 5, 6], [1, 2, 3])).toBeNull();
    expect(compareBlocks([1, 1, 1, 1, 1, 1], [2, 2, 2, 2])).toMatchObject({ pValue: 0 });
  });
});

describe("centres", () => {
  it("ignores a burst", () => {
    expect(median([1, 2, 900])).toBe(2);
    expect(middleMean([1, 1, 2, 2, 3, 3, 900, 900])).toBe(2.5);
  });
});
