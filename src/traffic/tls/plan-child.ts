/**
 * The child process of `createProbePlanner()`: disassembly needs a library that holds 20 MB, and files may contain anything. Arguments: `program` or
 * `library` for each file it was started with (descriptor 3 and up). Prints one JSON line before and after each, so that the parent knows which file
 * was being read when the process died.
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
    // The symbols exist, but their bytes are not machine code, or not that of a supported processor.
    return { library: "openssl", problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Synchronous: a line must be out before the next file can crash this process. */
function print(message: Record<string, unknown>): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

for (const [index, kind] of process.argv.slice(2).entries()) {
  print({ begin: index });
  print({ end: index, plan: planFile(firstDescriptor + index, kind === "program") });
}
// Exit at once: nothing is left to close, and an orderly teardown takes longer than the work.
process.exit(0);
