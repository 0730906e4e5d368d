/**
 * How much detail Coral may take, from what it costs. The budget is an average of ten minutes: a burst, which is when people look, is paid with what was saved before it. Steps
 * down when nothing is saved any more, or at once when a burst takes too much of the host, and back up when it has been cheap for a while.
 * Pure: the caller measures, and does what a step says.
 */

/** What each step leaves out, on top of those before it. */
export const ladderSteps = [
  /** Everything. */
  "full",
  /** Payload records are cut to the smallest size that still names a request. */
  "short-records",
  /** One connection in eight for protocols that are decoded outside the kernel; what is left out is counted. */
  "sampled-connections",
  /** Only what the kernel counts by itself: HTTP/1, Redis, Postgres. */
  "kernel-only",
  /** Nothing is attached to traffic. */
  "paused",
] as const;

export interface MeasuredCost {
  /** CPU of the traffic process, as a share of one core. */
  processShare: number;
  /** Time in BPF programs, as a share of one core; null where the kernel does not tell. */
  bpfShare: number | null;
  /** How long that was measured. */
  windowMs: number;
}

export interface LadderState {
  step: number;
  /** CPU time of the process that its budget would have allowed and that was not taken; below 0 when more was. */
  savedMs: number;
  /** Windows in a row that cost too much. One alone may be a burst, or the time in which the decoders are compiled. */
  dearWindows: number;
  /** Windows in a row that would have allowed more detail. */
  cheapWindows: number;
  /** How many cheap windows it takes to step up; doubles each time that stepping up was a mistake. */
  patienceWindows: number;
  /** Windows since the last step up; a step down soon after it was the mistake. */
  windowsSinceUp: number;
}

const lastStep = ladderSteps.length - 1;
const lastDetailStep = lastStep - 1;
const firstPatienceWindows = 3;
const maxPatienceWindows = 60;
const mistakeWithinWindows = 4;
const patienceWhenDear = 2;
/** Above this multiple of the budget, two steps instead of one. */
const farAbove = 4;
/** Above this multiple, at once, whatever was saved: with the default budget a quarter of the host. */
const mostOfBurst = 25;
/** What can be saved: the budget of so long. */
const savingMs = 600_000;
/** Below this share of the budget, more detail is tried. */
const cheapShare = 0.5;
/**
 * The programs in the kernel cost a steady fraction of a request, and leaving requests out would make every count wrong: they are given up only
 * when they take this many times the budget of the process.
 */
const bpfAllowance = 20;

export function initialLadder(): LadderState {
  return {
    step: 0,
    savedMs: Number.POSITIVE_INFINITY,
    dearWindows: 0,
    cheapWindows: 0,
    patienceWindows: firstPatienceWindows,
    windowsSinceUp: Number.POSITIVE_INFINITY,
  };
}

/** One window later. `cpuBudget` is a share of one core. */
export function nextStep(state: LadderState, { processShare, bpfShare, windowMs }: MeasuredCost, cpuBudget: number): LadderState {
  const windowsSinceUp = state.windowsSinceUp + 1;
  const mostMs = cpuBudget * savingMs;
  // What a long burst took beyond it is not owed for ever.
  const savedMs = Math.max(-mostMs, Math.min(mostMs, Math.min(mostMs, state.savedMs) + (cpuBudget - processShare) * windowMs));
  const processLoad = processShare / cpuBudget;
  const bpfLoad = (bpfShare ?? 0) / (cpuBudget * bpfAllowance);
  const dearWindows = Math.max(processLoad, bpfLoad) > 1 ? state.dearWindows + 1 : 0;
  const isDear = dearWindows >= patienceWhenDear;
  const isProcessTooMuch = processLoad > mostOfBurst || (savedMs <= 0 && (isDear || processLoad > farAbove));
  const isBpfTooMuch = bpfLoad > farAbove || (isDear && bpfLoad > 1);
  const down = isProcessTooMuch || isBpfTooMuch ? stepsDown(state.step, processLoad, bpfLoad) : state.step;
  if (down > state.step) {
    const isMistake = windowsSinceUp <= mistakeWithinWindows;
    return {
      step: down,
      savedMs,
      dearWindows: 0,
      cheapWindows: 0,
      patienceWindows: isMistake ? Math.min(maxPatienceWindows, state.patienceWindows * 2) : firstPatienceWindows,
      windowsSinceUp: Number.POSITIVE_INFINITY,
    };
  }
  const isCheap = processShare < cpuBudget * cheapShare && (bpfShare ?? 0) < cpuBudget * bpfAllowance * cheapShare;
  const cheapWindows = isCheap ? state.cheapWindows + 1 : 0;
  if (state.step > 0 && cheapWindows >= state.patienceWindows) {
    return { ...state, step: state.step - 1, savedMs, dearWindows, cheapWindows: 0, windowsSinceUp: 0 };
  }
  return { ...state, savedMs, dearWindows, cheapWindows, windowsSinceUp };
}

/** Where to go when it costs that many times what it may: never up. */
function stepsDown(step: number, processLoad: number, bpfLoad: number): number {
  if (bpfLoad > 1) return lastStep;
  if (processLoad <= 1 || step >= lastDetailStep) return step;
  return Math.min(lastDetailStep, step + (processLoad > farAbove ? 2 : 1));
}
