/** Keeps a daemon's memory small: returns unused memory from the process's three allocators (V8, glibc, DuckDB) to the kernel. */

import { setFlagsFromString } from "node:v8";
import { releaseMemory, returnLargeBlocks, shareOneHeap } from "../../bpf/index.ts";
import type { DaemonKind } from "../../cli/index.ts";
import { cleanCodeRanges } from "../../host/index.ts";

const releaseIntervalMs = 60_000;
/** Joining, the first scan and loading BPF programs take a few seconds. */
const startUpMs = 15_000;

const allocatorSettings = {
  agent: "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,tcache:false",
  up: "dirty_decay_ms:200,muzzy_decay_ms:0,narenas:1,tcache:false",
} as const;

/** V8's default in Node 20. */
const defaultInterruptBudget = 66 * 1024;

/** Call it before loading anything heavy. Node 20 to 24 know these flags; V8 reports an unknown one on stderr and continues. */
export function spareMemory(kind: DaemonKind): void {
  // A colony runs queries over all services; with a small heap they take twice the CPU.
  if (kind === "colony") return;
  preferMemory(kind, true);
  // DuckDB's jemalloc keeps freed pages for a second of activity, plus a cache per thread. An agent is active only briefly, so it
  // returns them at once. The colony of `coral up` is active more often, so it keeps them for 200 ms. Read when DuckDB is loaded.
  process.env["DUCKDB_JE_MALLOC_CONF"] ??= allocatorSettings[kind];
  shareHeap();
}

/** Switches V8 between speed and memory: at 100,000 spans per second, a larger heap cuts its CPU time to a third. */
export function preferMemory(kind: Exclude<DaemonKind, "colony">, isPreferred: boolean): void {
  // V8 collects when the heap has grown by about a third instead of up to fourfold.
  setFlagsFromString(isPreferred ? "--optimize-for-size" : "--no-optimize-for-size");
  // The young generation could grow to three times 16 MiB, a third of an agent; its few objects fit into the first 1 MiB.
  setFlagsFromString(`--semi-space-growth-factor=${isPreferred ? 1 : 2}`);
  if (kind !== "agent") return;
  // An agent runs much code, all of it rarely: baseline code for functions that run every 15 s wastes memory. A hot loop still reaches the
  // optimising compiler, a few milliseconds later.
  setFlagsFromString(isPreferred ? "--no-sparkplug" : "--sparkplug");
  setFlagsFromString(`--interrupt-budget=${isPreferred ? 4_000_000 : defaultInterruptBudget}`);
}

/** Prefers speed while at least one reason requests it, else memory. */
export function createSpeedSwitch(kind: DaemonKind): (reason: string) => (isWanted: boolean) => void {
  if (kind === "colony") return () => () => undefined;
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
    // Without FFI the agent only uses a little more memory; other checks report the missing library.
  }
}

/**
 * Every minute, and first after start-up: what only the start needed is a third of an agent. Locking the pid file has shown by then that native calls
 * work.
 */
export function keepReleasingMemory(): Disposable {
  const timer = setInterval(releaseMemory, releaseIntervalMs, cleanCodeRanges);
  const once = setTimeout(releaseMemory, startUpMs, cleanCodeRanges);
  timer.unref();
  once.unref();
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      clearTimeout(once);
    },
  };
}
