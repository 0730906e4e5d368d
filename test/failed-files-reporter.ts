import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

/**
 * Writes down which files failed, for whoever wants to run them once more: a JSON list in the file that CORAL_FAILED_TEST_FILES names. Without that variable,
 * or when something failed that belongs to no file, there is no list.
 */
export class FailedFilesReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const target = process.env["CORAL_FAILED_TEST_FILES"];
    if (target === undefined) return;
    const failed = modules.filter((module) => !module.ok()).map((module) => module.relativeModuleId);
    for (const error of unhandledErrors) {
      // What a file throws beside its tests fails the run, though every test has passed.
      const path: unknown = error["VITEST_TEST_PATH"];
      if (typeof path !== "string") return;
      failed.push(relative(process.cwd(), path));
    }
    writeFileSync(target, JSON.stringify([...new Set(failed)]));
  }
}
