import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

/** Of one run; also what scripts/lib/test-rounds.mjs reads. */
interface Outcome {
  passed: number;
  failed: number;
  skipped: number;
  /** Paths from the checkout on. Null when something failed that belongs to no file. */
  failedFiles: string[] | null;
}

/** Writes down how a run went, for whoever adds up several: as JSON in the file that CORAL_TEST_OUTCOME names. Without that variable it does nothing. */
export class OutcomeReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const target = process.env["CORAL_TEST_OUTCOME"];
    if (target === undefined) return;
    const outcome: Outcome = { passed: 0, failed: 0, skipped: 0, failedFiles: failedFiles(modules, unhandledErrors) };
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== "pending") outcome[state]++;
      }
    }
    writeFileSync(target, JSON.stringify(outcome));
  }
}

function failedFiles(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): string[] | null {
  const failed = modules.filter((module) => !module.ok()).map((module) => module.relativeModuleId);
  for (const error of unhandledErrors) {
    // What a file throws beside its tests fails the run, though every test has passed.
    const path: unknown = error["VITEST_TEST_PATH"];
    if (typeof path !== "string") return null;
    failed.push(relative(process.cwd(), path));
  }
  return [...new Set(failed)];
}
