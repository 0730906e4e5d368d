/** `nice` by thread: Linux keeps it per thread, although the interfaces refer to processes. A refusal affects only scheduling. */

import { readlinkSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

const highest = -20;
const usual = 0;
const lowest = 19;

/** Lowers the priority of the calling thread within its process, which needs no privilege. Returns its priority, or undefined if refused. */
export function lowerThreadPriority(steps: number): number | undefined {
  return changeThreadPriority(steps);
}

/** Raises the priority of the calling thread, and of threads and processes that it starts later. Needs root or CAP_SYS_NICE. Returns as above. */
export function raiseThreadPriority(steps: number): number | undefined {
  return changeThreadPriority(-steps);
}

function changeThreadPriority(steps: number): number | undefined {
  try {
    // <process>/task/<thread>; the kernel accepts a thread id wherever it expects a process id for priorities.
    const thread = Number(readlinkSync("/proc/thread-self").split("/").at(-1));
    const priority = Math.max(highest, Math.min(lowest, getPriority(thread) + steps));
    setPriority(thread, priority);
    return priority;
  } catch {
    // No /proc, or not allowed.
    return undefined;
  }
}

/** Resets the priority that a child inherited from a parent with a raised one. Returns its priority, undefined if the process has exited. */
export function takeBackPriority(pid: number): number | undefined {
  try {
    const priority = Math.max(usual, getPriority(pid));
    setPriority(pid, priority);
    return priority;
  } catch {
    // It has exited already.
    return undefined;
  }
}
