import { expect, it } from "vitest";
import { steady, times } from "./diagnosis.fixture.ts";
import { mirrored, scoreOf, shiftOf, timeShift } from "./robust-shift.ts";

it("shiftOf() measures in spreads of the baseline", () => {
  expect(shiftOf(steady(100, 20), steady(200, 20), 0)).toBeCloseTo(5);
});

it("shiftOf() treats less than the floor and than 5 % of the level as noise", () => {
  expect(shiftOf(steady(100, 0), steady(101, 0), 0)).toBeCloseTo(0.2);
  expect(shiftOf(steady(1, 0), steady(2, 0), 10)).toBeCloseTo(0.1);
});

it("shiftOf() limits the shift of a value that was always 0", () => {
  expect(shiftOf(steady(0, 0), steady(1e9, 0), 0)).toBeCloseTo(8);
});

it("shiftOf() accepts a long tail as usual", () => {
  const tailed = { ...steady(10, 1), q95: 90 };
  expect(shiftOf(tailed, steady(50, 1), 0)).toBeCloseTo(1);
});

it("timeShift() ignores what does not matter to the entry", () => {
  expect(timeShift(times(1_000), times(3_000), 20_000)).toBeCloseTo(0.1);
});

it("scoreOf() is 0 for an improvement and grows with the logarithm", () => {
  expect(scoreOf(-5)).toBe(0);
  expect(scoreOf(40) / scoreOf(4)).toBeLessThan(4);
});

it("mirrored() turns successes into failures", () => {
  expect(mirrored({ count: 3, q05: 90, q25: 95, median: 99, q75: 100, q95: 100 }, 100)).toEqual({
    count: 3,
    q05: 0,
    q25: 0,
    median: 1,
    q75: 5,
    q95: 10,
  });
});
