import { describe, expect, it } from "vitest";
import { initialLadder, type LadderState, type MeasuredCost, nextStep } from "./budget-ladder.ts";

const budget = 0.02;

const windowMs = 10_000;
/** No savings: every window counts separately. */
const spent: LadderState = { ...initialLadder(), savedMs: 0 };

/** The step after each window. */
function walk(costs: readonly MeasuredCost[], from: LadderState = spent): number[] {
  let state = from;
  return costs.map((cost) => {
    state = nextStep(state, cost, budget);
    return state.step;
  });
}
const process = (processShare: number, times = 1): MeasuredCost[] =>
  Array.from({ length: times }, () => ({ processShare, bpfShare: 0, windowMs }));

describe("nextStep()", () => {
  it("stays where it is while the cost is below the budget", () => {
    expect(walk(process(0.019, 5))).toEqual([0, 0, 0, 0, 0]);
  });

  it("lets a burst spend the savings of ten minutes: one minute at ten times the budget, not more", () => {
    const atFull = initialLadder();
    expect(walk(process(0.2, 7), atFull)).toEqual([0, 0, 0, 0, 0, 0, 2]);
    // Half of the ten minutes without cost save half of it.
    expect(walk([...process(0.2, 6), ...process(0, 30), ...process(0.2, 4)], atFull).slice(-4)).toEqual([0, 0, 0, 2]);
  });

  it("steps down at once when a burst takes more than a quarter of the host, regardless of savings", () => {
    expect(walk(process(0.49, 2), initialLadder())).toEqual([0, 0]);
    expect(walk(process(0.51, 1), initialLadder())).toEqual([2]);
  });

  it("bounds the debt to the budget of ten minutes", () => {
    const state = process(0.03, 10_000).reduce((before, cost) => nextStep(before, cost, budget), initialLadder());
    expect(state.savedMs).toBe(-12_000);
  });

  it("steps down after two windows above the budget, by two and at once when far above, and never pauses for the process alone", () => {
    expect(walk(process(0.03, 8))).toEqual([0, 1, 1, 2, 2, 3, 3, 3]);
    expect(walk(process(0.2, 3))).toEqual([2, 3, 3]);
    expect(walk([...process(0.03), ...process(0.015), ...process(0.03), ...process(0.015)])).toEqual([0, 0, 0, 0]);
  });

  it("pauses only when BPF programs take twenty times the budget", () => {
    const programs = (bpfShare: number | null, times: number): MeasuredCost[] =>
      Array.from({ length: times }, () => ({ processShare: 0, bpfShare, windowMs }));
    expect(walk(programs(0.39, 3))).toEqual([0, 0, 0]);
    expect(walk(programs(0.41, 2))).toEqual([0, 4]);
    expect(walk(programs(1.7, 1))).toEqual([4]);
    expect(walk(programs(null, 2))).toEqual([0, 0]);
  });

  it("steps up after three cheap windows in a row, one step at a time", () => {
    expect(walk([...process(0.2), ...process(0.001, 7)])).toEqual([2, 2, 2, 1, 1, 1, 0, 0]);
  });

  it("does not step up between half and all of the budget", () => {
    expect(walk([...process(0.03, 2), ...process(0.015, 20)]).at(-1)).toBe(1);
  });

  it("waits twice as long after each reverted step up, up to a limit", () => {
    let state = spent;
    const waits: number[] = [];
    for (let round = 0; round < 8; round++) {
      for (let expensive = 0; expensive < 2; expensive++)
        state = nextStep({ ...state, savedMs: 0 }, { processShare: 0.03, bpfShare: 0, windowMs }, budget);
      expect(state.step).toBe(1);
      let windows = 0;
      while (state.step === 1) {
        state = nextStep(state, { processShare: 0.001, bpfShare: 0, windowMs }, budget);
        windows++;
      }
      waits.push(windows);
    }
    expect(waits).toEqual([3, 6, 12, 24, 48, 60, 60, 60]);
  });

  it("resets the wait once a step up has lasted", () => {
    let state: LadderState = { step: 0, savedMs: 0, expensiveWindows: 1, cheapWindows: 0, windowsToStepUp: 48, windowsSinceUp: 5 };
    state = nextStep(state, { processShare: 0.03, bpfShare: 0, windowMs }, budget);
    expect(state).toMatchObject({ step: 1, windowsToStepUp: 3 });
  });
});
