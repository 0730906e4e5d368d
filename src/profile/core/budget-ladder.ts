/**
 * Adjusts the sampling rate to the measured cost: half the rate, then a quarter, then none. A profile with fewer samples is still unbiased,
 * only coarser. The budget is a ten-minute average, so that reading symbols of new programs once does not reduce the rate. Pure.
 */

/** Share of the configured rate at each step. */
export const ladderSteps = [1, 0.5, 0.25, 0] as const;

export interface LadderState {
  step: number;
  /** Unspent CPU time; negative when overspent. */
  savedMs: number;
  cheapWindows: number;
}

const savingMs = 600_000;
/** A window below this share of the budget is cheap: twice the rate would still be within it. */
const cheapShare = 0.4;
const cheapWindowsToStepUp = 10;
/** Nothing is measured while sampling is paused: it resumes after this many windows. */
const pausedWindows = 20;

export function initialLadder(): LadderState {
  return { step: 0, savedMs: Number.POSITIVE_INFINITY, cheapWindows: 0 };
}

/** The state after one more window. `spentMs`: CPU time of process and BPF program in it; `cpuBudget`: share of one core. */
export function nextStep(state: LadderState, spentMs: number, windowMs: number, cpuBudget: number): LadderState {
  const mostMs = cpuBudget * savingMs;
  const savedMs = Math.max(-mostMs, Math.min(mostMs, Math.min(mostMs, state.savedMs) + cpuBudget * windowMs - spentMs));
  const lastStep = ladderSteps.length - 1;
  if (savedMs <= 0 && spentMs > cpuBudget * windowMs && state.step < lastStep) {
    // A new step gets a small credit, so that its cost can be measured first.
    return { step: state.step + 1, savedMs: mostMs / 10, cheapWindows: 0 };
  }
  const cheapWindows = spentMs < cheapShare * cpuBudget * windowMs ? state.cheapWindows + 1 : 0;
  if (state.step > 0 && cheapWindows >= (state.step === lastStep ? pausedWindows : cheapWindowsToStepUp)) {
    return { step: state.step - 1, savedMs, cheapWindows: 0 };
  }
  return { step: state.step, savedMs, cheapWindows };
}
