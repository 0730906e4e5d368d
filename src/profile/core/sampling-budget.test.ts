import { describe, expect, it } from "vitest";
import { afterWindow, type BudgetState, initialBudget, rateSteps } from "./sampling-budget.ts";

const windowMs = 30_000;
const budget = 0.01;

function after(state: BudgetState, spentMs: number, windows: number): BudgetState {
  let next = state;
  for (let count = 0; count < windows; count++) next = afterWindow(next, spentMs, windowMs, budget);
  return next;
}

describe("sampling budget", () => {
  it("lets a burst pass that ten minutes can pay for", () => {
    expect(after(initialBudget(), 2_000, 2).step).toBe(0);
  });

  it("halves the rate, then pauses, while the cost stays too high", () => {
    const steps = [40, 60, 80].map((windows) => after(initialBudget(), 3_000, windows).step);
    expect(after(initialBudget(), 3_000, 3).step).toBe(1);
    expect(steps.at(-1)).toBe(rateSteps.length - 1);
  });

  it("comes back when the cost is low", () => {
    const paused = after(initialBudget(), 3_000, 80);
    expect(after(paused, 0, 19).step).toBe(rateSteps.length - 1);
    expect(after(paused, 0, 60).step).toBe(0);
  });

  it("stays where it is between cheap and expensive", () => {
    const reduced = after(initialBudget(), 3_000, 3);
    expect(after(reduced, 200, 100).step).toBe(1);
  });
});
