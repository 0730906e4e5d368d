/** Keeps long scans from blocking the event loop: they check whether their time slice is used up, and yield if so. */

import { setImmediate } from "node:timers/promises";

export interface Pacer {
  /** True when the current slice is used up. Cheap enough to call for every process. */
  due(): boolean;
  /** Yields to the event loop once and starts a new slice. Rejects with the signal's reason when it is aborted. */
  rest(): Promise<void>;
  /** Throws the signal's reason when it is aborted. */
  check(): void;
}

/** `sliceMs` defaults to 5: a quarter of the 20 ms that the loop may be blocked at most, as slices end late under load. */
export function createPacer(signal?: AbortSignal, sliceMs = 5): Pacer {
  let endsMs = performance.now() + sliceMs;
  return {
    due: () => performance.now() >= endsMs,
    check: () => signal?.throwIfAborted(),
    rest: async () => {
      signal?.throwIfAborted();
      await setImmediate();
      signal?.throwIfAborted();
      endsMs = performance.now() + sliceMs;
    },
  };
}
