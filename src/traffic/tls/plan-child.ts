/**
 * The program behind `createProbePlanner()`, a process of its own: reading machine code needs a library that keeps 20 MB, and files may hold anything.
 * Arguments: for each file that it was started with (descriptor 3 and up) `program` or `library`. Prints one JSON line before and after each, so that
 * the parent knows which one was being read when the process died.
 */

import { readSync, writeSync } from "node:fs";
import { readElfImage } from "../../code/index.ts";
import { type PlanProblem, type ProbePlan, planProbes } from "./probe-plan.ts";

const firstDescriptor = 3;

/** Null for a file without TLS. */
function planFile(fd: number, isExecutable: boolean): ProbePlan | PlanProblem | null {
  const image = readElfImage((into, offset) => readSync(fd, into, 0, into.length, offset));
  if (image === null) return null;
  try {
    return planProbes(image, isExecutable);
  } catch (error) {
    // Symbols are there, but the bytes at them are no machine code, or it cannot be read on this processor.
    return { library: "openssl", problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Synchronous: what is printed must be out before the next file can crash. */
function print(message: Record<string, unknown>): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

for (const [index, kind] of process.argv.slice(2).entries()) {
  print({ begin: index });
  print({ end: index, plan: planFile(firstDescriptor + index, kind === "program") });
}
// At once: nothing is left to close, and taking everything down in order takes longer than the work.
process.exit(0);
