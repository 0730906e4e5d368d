import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Prints each skipped test with its reason before the summary: what this host could not prove must not look proven. */
export class SkipReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const reasons = new Map<string, string[]>();
    for (const module of modules) {
      for (const test of module.children.allTests("skipped")) {
        const reason = reasonOf(test);
        // A name filter on the command line skips the rest without a reason; that is no news.
        if (reason === undefined) continue;
        const names = reasons.get(reason) ?? [];
        names.push(`${module.relativeModuleId} > ${test.fullName}`);
        reasons.set(reason, names);
      }
    }
    for (const [reason, names] of reasons) {
      process.stdout.write(`\nskipped: ${reason}\n${names.map((name) => `  ${name}\n`).join("")}`);
    }
  }
}

function reasonOf(test: TestCase): string | undefined {
  const result = test.result();
  if (result.state === "skipped" && result.note) return result.note;
  return test.options.mode === "skip" || test.options.mode === "todo" ? "marked as skipped without a reason" : undefined;
}
