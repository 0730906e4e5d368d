/**
 * The budget ladder: decides from measured cost how much detail is recorded. The budget is an average of ten minutes, so that a burst, which is when
 * people look, can spend what was saved before it. Steps down when the savings are spent, or at once when a burst takes too much of the host;
 * steps up after a run of cheap windows. Pure: the caller measures the cost and applies the step.
 */

/** What each step drops, in addition to the steps before it. */
export const ladderSteps = [
  /** Everything. */
  "full",
  /** Payload records are truncated to the smallest size that still names a request. */
  "short-records",
  /** One connection in eight for protocols that are decoded in user space; the rest is counted as `sampled-out`. */
  "sampled-connections",
  /** Only protocols that the kernel counts itself: HTTP/1, Redis, Postgres. */
  "kernel-only",
  /** All hooks are detached. */
  "paused",
] as const;

export interface MeasuredCost {
  /** CPU of the traffic process, as a share of one core. */
  processShare: number;
  /** Time in BPF programs, as a share of one core; null if the kernel does not report it. */
  bpfShare: number | null;
  /** The time over which both were measured. */
  windowMs: number;
}

export interface LadderState {
  step: number;
  /** Unspent CPU time of the process's budget; negative when it is overspent. */
  savedMs: number;
  /** Consecutive windows above budget. A single one may be a burst, or the JIT compiling decoders. */
  expensiveWindows: number;
  /** Consecutive windows cheap enough for more detail. */
  cheapWindows: number;
  /** Cheap windows needed to step up; doubles each time a step up has to be reverted. */
  windowsToStepUp: number;
  /** Windows since the last step up; a step down soon after it reverts it. */
  windowsSinceUp: number;
}

const lastStep = ladderSteps.length - 1;
const lastDetailStep = lastStep - 1;
const minWindowsToStepUp = 3;
const maxWindowsToStepUp = 60;
const revertWithinWindows = 4;
const expensiveWindowsToStepDown = 2;
/** Above this multiple of the budget, two steps instead of one. */
const farAbove = 4;
/** Above this multiple, steps down at once, regardless of savings: with the default budget, a quarter of the host. */
const maxBurst = 25;
/** Savings are bounded by the budget of this time. */
const savingMs = 600_000;
/** A window below this share of the budget is cheap. */
const cheapShare = 0.5;
/**
 * BPF programs cost a steady fraction of each request, and skipping requests would make every count wrong. They are detached only when they take
 * this many times the budget of the process.
 */
const bpfAllowance = 20;

export function initialLadder(): LadderState {
  return {
    step: 0,
    savedMs: Number.POSITIVE_INFINITY,
    expensiveWindows: 0,
    cheapWindows: 0,
    windowsToStepUp: minWindowsToStepUp,
    windowsSinceUp: Number.POSITIVE_INFINITY,
  };
}

/** The state after one more window. `cpuBudget` is a share of one core. */
export function nextStep(state: LadderState, { processShare, bpfShare, windowMs }: MeasuredCost, cpuBudget: number): LadderState {
  const windowsSinceUp = state.windowsSinceUp + 1;
  const mostMs = cpuBudget * savingMs;
  // Debt is bounded, too: a long burst is not paid back forever.
  const savedMs = Math.max(-mostMs, Math.min(mostMs, Math.min(mostMs, state.savedMs) + (cpuBudget - processShare) * windowMs));
  const processLoad = processShare / cpuBudget;
  const bpfLoad = (bpfShare ?? 0) / (cpuBudget * bpfAllowance);
  const expensiveWindows = Math.max(processLoad, bpfLoad) > 1 ? state.expensiveWindows + 1 : 0;
  const isExpensive = expensiveWindows >= expensiveWindowsToStepDown;
  const isProcessOver = processLoad > maxBurst || (savedMs <= 0 && (isExpensive || processLoad > farAbove));
  const isBpfOver = bpfLoad > farAbove || (isExpensive && bpfLoad > 1);
  const down = isProcessOver || isBpfOver ? stepsDown(state.step, processLoad, bpfLoad) : state.step;
  if (down > state.step) {
    const isRevert = windowsSinceUp <= revertWithinWindows;
    return {
      step: down,
      savedMs,
      expensiveWindows: 0,
      cheapWindows: 0,
      windowsToStepUp: isRevert ? Math.min(maxWindowsToStepUp, state.windowsToStepUp * 2) : minWindowsToStepUp,
      windowsSinceUp: Number.POSITIVE_INFINITY,
    };
  }
  const isCheap = processShare < cpuBudget * cheapShare && (bpfShare ?? 0) < cpuBudget * bpfAllowance * cheapShare;
  const cheapWindows = isCheap ? state.cheapWindows + 1 : 0;
  if (state.step > 0 && cheapWindows >= state.windowsToStepUp) {
    return { ...state, step: state.step - 1, savedMs, expensiveWindows, cheapWindows: 0, windowsSinceUp: 0 };
  }
  return { ...state, savedMs, expensiveWindows, cheapWindows, windowsSinceUp };
}

/** The step for a cost of so many times the budget; never above the current one. */
function stepsDown(step: number, processLoad: number, bpfLoad: number): number {
  if (bpfLoad > 1) return lastStep;
  if (processLoad <= 1 || step >= lastDetailStep) return step;
  return Math.min(lastDetailStep, step + (processLoad > farAbove ? 2 : 1));
}
