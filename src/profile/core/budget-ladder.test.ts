import { describe, expect, it } from "vitest";
import { initialLadder, type LadderState, ladderSteps, nextStep } from "./budget-ladder.ts";

const windowMs = 30_000;
const budget = 0.01;

function after(state: LadderState, spentMs: number, windows: number): LadderState {
  let next = state;
  for (let count = 0; count < windows; count++) next = nextStep(next, spentMs, windowMs, budget);
  return next;
}

describe("sampling budget", () => {
  it("tolerates a burst that ten minutes of budget cover", () => {
    expect(after(initialLadder(), 2_000, 2).step).toBe(0);
  });

  it("halves the rate, then pauses, while the cost stays too high", () => {
    const steps = [40, 60, 80].map((windows) => after(initialLadder(), 3_000, windows).step);
    expect(after(initialLadder(), 3_000, 3).step).toBe(1);
    expect(steps.at(-1)).toBe(ladderSteps.length - 1);
  });

  it("resumes when the cost is low", () => {
    const paused = after(initialLadder(), 3_000, 80);
    expect(after(paused, 0, 19).step).toBe(ladderSteps.length - 1);
    expect(after(paused, 0, 60).step).toBe(0);
  });

  it("keeps the rate between cheap and expensive", () => {
    const reduced = after(initialLadder(), 3_000, 3);
    expect(after(reduced, 200, 100).step).toBe(1);
  });
});
