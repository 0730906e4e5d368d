import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { deviationsBetween, isShareChange } from "./profiles.ts";

describe("isShareChange()", () => {
  it.for([
    ["a clear growth", { part: 60, whole: 100 }, { part: 20, whole: 100 }, true],
    ["a clear fall", { part: 20, whole: 100 }, { part: 60, whole: 100 }, true],
    ["few samples", { part: 6, whole: 10 }, { part: 2, whole: 10 }, false],
    ["certain but below one point", { part: 10_900, whole: 1_000_000 }, { part: 10_000, whole: 1_000_000 }, false],
    ["no samples before", { part: 6, whole: 10 }, { part: 0, whole: 0 }, false],
    ["all of both", { part: 10, whole: 10 }, { part: 10, whole: 10 }, false],
  ] as const)("judges %s", ([, now, before, expected]) => {
    expect(isShareChange(now, before)).toBe(expected);
    const sign = now.part * before.whole - before.part * now.whole;
    expect(Math.sign(deviationsBetween(now, before))).toBe(Math.sign(sign));
  });

  it("finds a change in what is equal about once in 370 comparisons", () => {
    const random = new SeededRandom(11);
    const draw = (): { part: number; whole: number } => {
      let part = 0;
      for (let count = 0; count < 400; count++) if (random.below(10) < 3) part++;
      return { part, whole: 400 };
    };
    let found = 0;
    for (let round = 0; round < 3_000; round++) if (isShareChange(draw(), draw())) found++;
    expect(found).toBeLessThan(25);
  });
});
