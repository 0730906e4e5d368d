/** Messages between the agent and its profile process. Sent with the `advanced` serialization. */

export interface ProfileSettings {
  /** Samples per second and processor. */
  hz: number;
  windowMs: number;
  /** Limit on distinct stacks per window; samples of further ones count as lost. */
  maxStacks: number;
  /** CPU time of the process and its BPF program, as a share of one core. */
  cpuBudget: number;
}

/** Messages to the process. */
export type ProfileOrder = { kind: "settings"; settings: ProfileSettings };

/** What a frame is written in, or runs in. */
export type FrameKind = "native" | "kernel" | "go" | "node" | "python" | "unknown";

export interface ProfileFrame {
  /** Function name; `nginx+0x70810` if unknown. */
  name: string;
  /** File that contains it: `nginx`, `libc.so.6`, `routes/checkout.js`. Empty for the kernel. */
  module: string;
  kind: FrameKind;
}

/** Samples of one thread name of one process with the same stack. */
export interface ProfileStack {
  pid: number;
  /** Start of the process, nanoseconds since boot; identifies it together with the pid. */
  startedNs: number;
  processName: string;
  threadName: string;
  isKernelThread: boolean;
  /** GNU build-id of the executable, if it has one. */
  build: string | null;
  /** Indexes in the `frames` of the window, outermost first. */
  frames: number[];
  /** The user part of the stack reaches the start of the program or thread. */
  isWhole: boolean;
  samples: number;
}

export const profileLosses = ["ring-full", "stacks-full", "paused-seconds", "away-seconds"] as const;
export type ProfileLoss = (typeof profileLosses)[number];

export interface ProfileCost {
  /** Time in the BPF program; null if the kernel does not report it. */
  bpfNs: number | null;
  /** CPU time of the profile process. */
  cpuNs: number;
  rssBytes: number;
}

export interface ProfileWindow {
  kind: "window";
  windowMs: number;
  /** CPU time that one sample stands for. */
  periodUs: number;
  /** Each frame once: sending it for every stack would cost more than walking the stacks. */
  frames: ProfileFrame[];
  stacks: ProfileStack[];
  losses: { loss: ProfileLoss; count: number }[];
  cost: ProfileCost;
}

/** `off`: the process cannot work on this host, and `problem` gives the reason and the fix. */
export interface ProfileState {
  kind: "state";
  state: "on" | "off" | "paused";
  problem: string | null;
  hz: number;
}

/** Messages from the process. */
export type ProfileReport = ProfileWindow | ProfileState;
