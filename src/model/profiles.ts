/** CPU profiles: samples of what processors ran, by service and stack. */

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
