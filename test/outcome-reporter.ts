import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

/** One run, as read by scripts/lib/test-verdict.mjs, which explains the fields. */
interface Outcome {
  passed: number;
  failed: number;
  skipped: number;
  failedFiles: Record<string, number> | null;
}

/** Writes the result of a run as JSON to the file that CORAL_TEST_OUTCOME names. Does nothing without that variable. */
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

function failedFiles(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): Record<string, number> | null {
  const failed: Record<string, number> = {};
  for (const module of modules) {
    if (!module.ok()) failed[module.relativeModuleId] = [...module.children.allTests("failed")].length;
  }
  for (const error of unhandledErrors) {
    // An error thrown outside of a test fails the run even if every test passed.
    const path: unknown = error["VITEST_TEST_PATH"];
    if (typeof path !== "string") return null;
    failed[relative(process.cwd(), path)] ??= 0;
  }
  return failed;
}
