/** Keeps a daemon small: memory that nobody uses goes back to the kernel instead of staying with the three allocators of this process. */

import { setFlagsFromString } from "node:v8";
import { dropMappedPages, memoryPageBytes, releaseFreeMemory, returnLargeBlocks, shareOneHeap } from "../../bpf/index.ts";
import type { DaemonKind } from "../../cli/index.ts";
import { cleanCodeRanges } from "../../host/index.ts";

const releaseIntervalMs = 60_000;
/** Joining, the first scan and the programs of the kernel take a few seconds. */
const startIsOverMs = 15_000;

/** V8's own default in Node 20. */
const defaultInterruptBudget = 66 * 1024;

/** To be called before anything heavy is loaded. Node 20 to 24 know these flags; one that does not says so on stderr and goes on. */
export function spareMemory(kind: DaemonKind): void {
  preferMemory(kind, true);
  if (kind !== "agent") return;
  // DuckDB's own allocator keeps freed pages for a second of activity, and a cache for each thread; an agent is active for a moment every few
  // seconds. Read when DuckDB is loaded.
  process.env["DUCKDB_JE_MALLOC_CONF"] ??= "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,tcache:false";
  shareHeap();
}

/** Small or fast: a process that is sent a hundred thousand spans a second needs a third of the time when V8 may take the memory for it. */
export function preferMemory(kind: DaemonKind, isPreferred: boolean): void {
  // V8 collects when the heap has grown by about a third, instead of up to fourfold.
  setFlagsFromString(isPreferred ? "--optimize-for-size" : "--no-optimize-for-size");
  if (kind !== "agent") return;
  // An agent does a little of everything and nothing often: machine code would be made for functions that run once in 15 s. A loop that is really
  // hot still reaches the optimising compiler, a few milliseconds later.
  setFlagsFromString(isPreferred ? "--no-sparkplug" : "--sparkplug");
  setFlagsFromString(`--interrupt-budget=${isPreferred ? 4_000_000 : defaultInterruptBudget}`);
  // Young objects would be given three times 16 MiB, a third of an agent; the little that it makes fits into the first 1 MiB.
  setFlagsFromString(`--semi-space-growth-factor=${isPreferred ? 1 : 2}`);
}

/** Several things may want speed at a time; memory comes first again when none does. */
export function createSpeedSwitch(kind: DaemonKind): (reason: string) => (isWanted: boolean) => void {
  const reasons = new Set<string>();
  return (reason) => (isWanted) => {
    if (isWanted) reasons.add(reason);
    else reasons.delete(reason);
    preferMemory(kind, reasons.size === 0);
  };
}

function shareHeap(): void {
  try {
    shareOneHeap();
    returnLargeBlocks();
  } catch {
    // Without FFI the agent is a little larger, and says later what else it lacks.
  }
}

/**
 * Releases what the C library holds free, each minute until disposed, and once, when the start is over, the machine code that only it needed: a third
 * of an agent. What is needed again comes back from the file in microseconds. By then the lock on the pid file has shown that the library can be called.
 */
export function keepReleasingMemory(): Disposable {
  const timer = setInterval(releaseFreeMemory, releaseIntervalMs);
  const once = setTimeout(() => dropMappedPages(cleanCodeRanges(memoryPageBytes())), startIsOverMs);
  timer.unref();
  once.unref();
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      clearTimeout(once);
    },
  };
}
