/** CPU profiles: samples of what each processor ran. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** One row per window, process, thread name and stack. */
export const profile = defineSignal({
  name: "profile",
  description: "CPU samples of one process in one window that had the same stack",
  columns: {
    service: "text",
    pid: "int",
    /** Start time in clock ticks since boot; identifies a process together with pid. */
    start_ticks: "int",
    /** Thread name in the kernel (comm). */
    thread: "text",
    /** GNU build-id of the executable. */
    build: "text?",
    /** Id of a row in `profile_stack`; 16 hex digits. */
    stack: "text",
    samples: "int",
    /** CPU time of the samples, microseconds. */
    cpu_us: "int",
    window_ms: "int",
  },
  retention: {
    agent: { maxAgeMs: 12 * hourMs, weight: 4 },
    colony: { maxAgeMs: 7 * 24 * hourMs, weight: 6 },
  },
});

/** Written when an agent first sees a stack and again every few hours. */
export const profileStack = defineSignal({
  name: "profile_stack",
  description: "The functions of a stack in `profile`",
  columns: {
    stack: "text",
    /** JSON list of `[function, file, kind]`, outermost first; kind: `native`, `kernel`, `go`, `unknown`. */
    frames: "text",
    /** True if the stack reaches the start of the program or thread. */
    is_whole: "bool",
  },
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 2 },
    colony: { maxAgeMs: 8 * 24 * hourMs, weight: 3 },
  },
});

/** No row means no loss. */
export const profileLoss = defineSignal({
  name: "profile_loss",
  description: "What the CPU profile of a host missed in one window, and why",
  columns: {
    /**
     * `ring-full` and `stacks-full` count samples. `paused-seconds`: the profiler paused over its CPU budget; `away-seconds`: it was
     * restarting.
     */
    loss: "text",
    count: "int",
    window_ms: "int",
  },
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 8 * 24 * hourMs, weight: 1 },
  },
});
