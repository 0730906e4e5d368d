import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Lists skipped tests by reason before the summary: a passing run proves nothing about them. */
export class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = new Map<string, string[]>();
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const name = `${module.relativeModuleId} > ${test.fullName}`;
        // Tests excluded by a name filter have no reason and are not listed.
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
