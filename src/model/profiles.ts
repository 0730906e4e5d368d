/** CPU profiles: samples of what processors ran, by service and stack, and whether chance explains how shares of them differ. */

/** What a frame of a stack is: its function, the file that holds it, and what it is written in. */
export type StackFrame = readonly [name: string, module: string, kind: FrameKind];

export const frameKinds = ["native", "kernel", "go", "node", "python", "unknown"] as const;
export type FrameKind = (typeof frameKinds)[number];

export interface ProfileRequest {
  service: string;
  sinceMs: number;
  /** Compare with the same length of time that ended this long ago. */
  baselineMs?: number;
  /** Only threads of this name. */
  thread?: string;
  agentIds?: readonly string[];
}

/** Samples that had the same stack. */
export interface ProfileStackFact {
  /** Outermost first. */
  frames: StackFrame[];
  isWhole: boolean;
  samples: number;
  /** CPU time. */
  cpuUs: number;
  /** In the baseline. */
  samplesBefore: number;
  cpuUsBefore: number;
}

export interface ProfileFacts {
  /** Most CPU first; at most as many as one answer holds. */
  stacks: ProfileStackFact[];
  /** Of all stacks, also those that are not listed. */
  samples: number;
  cpuUs: number;
  samplesBefore: number;
  cpuUsBefore: number;
  instances: number;
  /** Start of the oldest window and end of the newest one within the time, milliseconds since 1970; null when there is none. */
  fromMs: number | null;
  untilMs: number | null;
  losses: { loss: string; count: number }[];
}

/** Milliseconds since 1970; `fromMs` belongs to it, `untilMs` does not. */
export interface ProfileTime {
  fromMs: number;
  untilMs: number;
}

export interface HotFunctionsRequest {
  service: string;
  /** When it was slow. */
  now: ProfileTime;
  /** What it is compared with, of any length: before the incident, the same hour yesterday. */
  before: ProfileTime;
  agentIds?: readonly string[];
  /** Of each list. */
  limit: number;
}

export interface HotFunction {
  name: string;
  /** Executable, library or script; empty for the kernel. */
  file: string;
  kind: FrameKind;
  /** Shares of the service's samples, 0..1: on top of the stack, and anywhere on it. */
  self: { now: number; before: number };
  total: { now: number; before: number };
  /** CPU time of it and what it calls, as cores: 0.5 is half a core all the time. */
  cores: { now: number; before: number };
  /** Standard deviations by which `total` grew; above 3 chance explains one in 370. */
  deviations: number;
  /** The change of `total` is beyond chance and at least one point. */
  isSignificant: boolean;
}

export interface HotFunctions {
  /** CPU samples of the service; with less than about 50 on either side nothing can be said about growth. */
  samples: { now: number; before: number };
  cores: { now: number; before: number };
  /** Most CPU time on top of the stack first. */
  hottest: HotFunction[];
  /** Those whose share grew: beyond chance first, then by CPU time that was added; what does the work before what calls it. */
  grown: HotFunction[];
}

/** Samples with a property, and all samples. */
export interface SampleShare {
  part: number;
  whole: number;
}

/** Standard deviations; chance alone passes it once in 370 comparisons. */
export const significantDeviations = 3;
/** A smaller change is not worth a look, however certain. */
export const minShareChange = 0.01;

/** Standard deviations between two shares, positive where `now` is larger; 0 when either has no samples. */
export function deviationsBetween(now: SampleShare, before: SampleShare): number {
  if (now.whole === 0 || before.whole === 0) return 0;
  const pooled = (now.part + before.part) / (now.whole + before.whole);
  const deviation = Math.sqrt(pooled * (1 - pooled) * (1 / now.whole + 1 / before.whole));
  return deviation > 0 ? (now.part / now.whole - before.part / before.whole) / deviation : 0;
}

/** Larger than chance explains, and large enough to matter. */
export function isShareChange(now: SampleShare, before: SampleShare): boolean {
  if (now.whole === 0 || before.whole === 0) return false;
  const change = Math.abs(now.part / now.whole - before.part / before.whole);
  return change >= minShareChange && Math.abs(deviationsBetween(now, before)) >= significantDeviations;
}
