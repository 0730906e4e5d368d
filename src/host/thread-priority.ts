import { readlinkSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

const lowest = 19;

/**
 * Lets the calling thread stand back behind the rest of its process, by so many steps of `nice`: Linux keeps priorities by thread, and everybody may
 * lower one. Returns its priority, or undefined where there is no such thing; then nothing is lost but order.
 */
export function lowerThreadPriority(steps: number): number | undefined {
  try {
    // <process>/task/<thread>; the kernel takes the id of a thread wherever priorities of a process are asked for.
    const thread = Number(readlinkSync("/proc/thread-self").split("/").at(-1));
    const priority = Math.min(lowest, getPriority(thread) + steps);
    setPriority(thread, priority);
    return priority;
  } catch {
    // No /proc, or a sandbox that does not allow it.
    return undefined;
  }
}
