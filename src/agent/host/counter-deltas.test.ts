import { describe, expect, it } from "vitest";
import { createCounterDeltas, ratioOf } from "./counter-deltas.ts";

describe("createCounterDeltas()", () => {
  it.each([
    ["growth", 100, 350, 250],
    ["no growth", 100, 100, 0],
    ["a 32-bit wrap", 2 ** 32 - 50, 150, 200],
    ["a reset", 1_000_000, 5, null],
    ["a reset from high up", 3_000_000_000, 5, null],
    ["a 64-bit counter that decreased", 2 ** 40, 2 ** 39, null],
  ])("handles %s", (_, before, now, expected) => {
    const deltas = createCounterDeltas(10);
    expect(deltas.of(before, now)).toBe(expected);
    expect(deltas.resets).toBe(expected === null ? 1 : 0);
  });

  it("never returns negative rates", () => {
    const deltas = createCounterDeltas(15);
    expect(deltas.perSecond(100, 250)).toBe(10);
    expect(deltas.perSecond(250, 100)).toBe(0);
    expect(deltas.resets).toBe(1);
  });
});

describe("ratioOf()", () => {
  it.each([
    [1, 4, 0.25],
    [5, 4, 1],
    [-1, 4, 0],
    [1, 0, 0],
  ])("of %d and %d is %d", (part, whole, expected) => {
    expect(ratioOf(part, whole)).toBe(expected);
  });
});
