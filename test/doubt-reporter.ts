import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Prints, before the summary, what a green run does not prove: tests that were skipped, and why. */
export class DoubtReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = new Map<string, string[]>();
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const name = `${module.relativeModuleId} > ${test.fullName}`;
        // A name filter on the command line skips the rest without a reason; that is no news.
        const reason = reasonOf(test);
        if (reason !== undefined) skipped.set(reason, [...(skipped.get(reason) ?? []), name]);
      }
    }
    for (const [reason, names] of skipped) process.stdout.write(`\nskipped: ${reason}\n${names.map((name) => `  ${name}\n`).join("")}`);
  }
}

function reasonOf(test: TestCase): string | undefined {
  const result = test.result();
  if (result.state !== "skipped") return undefined;
  if (result.note) return result.note;
  return test.options.mode === "skip" || test.options.mode === "todo" ? "marked as skipped without a reason" : undefined;
}
