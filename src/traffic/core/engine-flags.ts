/** How V8 is set up in the traffic process: small while little comes through the ring, fast as soon as much does. */

import { setFlagsFromString } from "node:v8";

/**
 * It collects early, keeps one helper thread, and makes machine code only of what runs very often, which on an idle host is nothing: that saves 8 MB. The
 * limit of the heap is a fuse, far above what the bounded tables need: at it the process ends and is started again.
 */
export const smallEngineFlags: readonly string[] = [
  "--optimize-for-size",
  "--semi-space-growth-factor=1",
  "--max-old-space-size=160",
  "--v8-pool-size=1",
  "--no-sparkplug",
  "--interrupt-budget=4000000",
];

/** Machine code soon, as Node has it by default; decoders take a third less time then. Read by V8 whenever a function has used up its budget. */
export function preferSpeed(): void {
  setFlagsFromString("--sparkplug");
  setFlagsFromString("--interrupt-budget=135168");
}
