import { describe, expect, it } from "vitest";
import { seededRandom } from "../../store.fixture.ts";
import {
  addDistributions,
  type Distribution,
  downscale,
  exponentialBound,
  growthOf,
  quantileOf,
  scaleDistribution,
  spansOf,
} from "./distribution.ts";

function explicitOf(values: readonly number[], bounds: readonly number[]): Distribution {
  const counts = new Array<number>(bounds.length + 1).fill(0);
  for (const value of values) counts[bounds.filter((bound) => value > bound).length]! += 1;
  return {
    count: values.length,
    sum: values.reduce((sum, value) => sum + value, 0),
    min: null,
    max: null,
    buckets: { type: "explicit", bounds, counts },
  };
}

function exponentialOf(values: readonly number[], scale: number): Distribution {
  const side = (all: readonly number[]) => {
    const indexes = all.map((value) => Math.ceil(Math.log2(value) * 2 ** scale) - 1);
    const offset = indexes.length === 0 ? 0 : Math.min(...indexes);
    const counts = indexes.length === 0 ? [] : new Array<number>(Math.max(...indexes) - offset + 1).fill(0);
    for (const index of indexes) counts[index - offset]! += 1;
    return { offset, counts };
  };
  return {
    ...{ count: values.length, sum: values.reduce((sum, value) => sum + value, 0), min: null, max: null },
    buckets: {
      ...{ type: "exponential", scale, zeroThreshold: 0, zeroCount: values.filter((value) => value === 0).length },
      positive: side(values.filter((value) => value > 0)),
      negative: side(values.filter((value) => value < 0).map((value) => -value)),
    },
  };
}

/** The quantile: this share of all values is at or below it. */
const trueQuantile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(share * values.length) - 1)]!;

describe("quantileOf()", () => {
  const random = seededRandom(7);
  const values = Array.from({ length: 5_000 }, () => Math.exp(random() * 8 - 4));

  it.each([0.01, 0.25, 0.5, 0.9, 0.95, 0.99])("is within the bucket of the true value at %d", (share) => {
    const bounds = [0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50];
    const truth = trueQuantile(values, share);
    const found = quantileOf(explicitOf(values, bounds), share)!;
    const index = bounds.filter((bound) => truth > bound).length;
    expect(found).toBeGreaterThanOrEqual(bounds[index - 1] ?? 0);
    expect(found).toBeLessThanOrEqual(bounds[index] ?? 50);
  });

  it.each([0, 2, 5, 8])("is within one bucket of the true value with exponential buckets of scale %d", (scale) => {
    const width = 2 ** (2 ** -scale);
    for (const share of [0.01, 0.5, 0.95, 0.999]) {
      const ratio = quantileOf(exponentialOf(values, scale), share)! / trueQuantile(values, share);
      expect(ratio).toBeGreaterThanOrEqual(1 / width);
      expect(ratio).toBeLessThanOrEqual(width);
    }
  });

  it("reads zeros and values below zero", () => {
    const found = exponentialOf([-8, -4, -2, 0, 0, 0, 2, 4, 8], 3);
    expect(quantileOf(found, 0.5)).toBe(0);
    expect(quantileOf(found, 0)).toBeCloseTo(-8, 9);
    expect(quantileOf(found, 0.1)).toBeCloseTo(-8 / 2 ** (0.9 / 8), 9);
    expect(quantileOf(found, 1)).toBeCloseTo(8, 9);
  });

  it("uses known extremes as edges of the outermost buckets", () => {
    const above = explicitOf([100, 200, 300, 400], [10]);
    expect(quantileOf(above, 0.5)).toBe(10);
    expect(quantileOf({ ...above, max: 400 }, 0.5)).toBe(205);
    expect(quantileOf({ ...above, max: 400 }, 1)).toBe(400);
    const below = explicitOf([-5, -4], [-1, 0]);
    expect(quantileOf(below, 0.5)).toBe(-1);
    expect(quantileOf({ ...below, min: -5 }, 0)).toBe(-5);
    expect(quantileOf(explicitOf([3], [1, 5]), 0)).toBe(1);
    expect(quantileOf({ ...explicitOf([], [1]), count: 0 }, 0.5)).toBeNull();
  });

  it("returns null when a single bucket holds all values", () => {
    const all = explicitOf([3, 5], []);
    expect([quantileOf(all, 0.5), quantileOf({ ...all, max: 5 }, 0.5)]).toEqual([null, null]);
    expect(quantileOf({ ...all, min: 3, max: 5 }, 1)).toBe(5);
  });
});

describe("addDistributions()", () => {
  it("merges explicit histograms at their common bounds", () => {
    const sum = addDistributions(explicitOf([1, 2, 3, 30], [1, 2, 10, 20]), explicitOf([1, 4, 15], [1, 5, 10]))!;
    expect(sum.buckets).toEqual({ type: "explicit", bounds: [1, 10], counts: [2, 3, 2] });
    expect(sum).toMatchObject({ count: 7, sum: 56 });
  });

  it("merges exponential histograms at the coarser scale", () => {
    const random = seededRandom(3);
    const [one, other] = [1, 2].map(() => Array.from({ length: 300 }, () => (random() - 0.3) * 100)) as [number[], number[]];
    const sum = addDistributions(exponentialOf(one, 5), exponentialOf(other, 2))!;
    const wanted = exponentialOf([...one, ...other], 2);
    expect(sum.buckets).toEqual(wanted.buckets);
    expect(addDistributions(exponentialOf(one, 5), explicitOf(one, [1]))).toBeNull();
  });
});

describe("growthOf()", () => {
  it("returns what was added, and null after a restart", () => {
    const early = explicitOf([1, 2], [1, 5]);
    const late = explicitOf([1, 2, 3, 9], [1, 5]);
    expect(growthOf(late, early)).toMatchObject({ count: 2, sum: 12, buckets: { counts: [0, 1, 1] } });
    expect(growthOf(early, late)).toBeNull();
    expect(growthOf(explicitOf([9, 9, 9], [1, 5]), early)).toBeNull();
    const grown = growthOf(exponentialOf([1, 3, 100], 2), exponentialOf([3], 4))!;
    expect(spansOf(grown.buckets).reduce((sum, { count }) => sum + count, 0)).toBe(2);
  });
});

describe("downscale()", () => {
  it("puts each value into its bucket at the coarser scale", () => {
    expect(downscale({ offset: -3, counts: [1, 2, 3, 4, 5] }, 1)).toEqual({ offset: -2, counts: [1, 5, 9] });
    expect(exponentialBound(0, 3)).toBe(8);
    expect(exponentialBound(-1, 2)).toBe(16);
  });
});

describe("scaleDistribution()", () => {
  it("keeps percentiles", () => {
    const whole = exponentialOf([1, 2, 3, 4, 50], 4);
    const half = scaleDistribution(whole, 0.5);
    expect(half.count).toBe(2.5);
    expect(quantileOf(half, 0.8)).toBeCloseTo(quantileOf(whole, 0.8)!, 9);
  });
});
