import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Prints, before the summary, what a green run does not prove: tests that were skipped and why, and those that passed only when repeated. */
export class DoubtReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = new Map<string, string[]>();
    const repeated = new Map<string, string[]>();
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const name = `${module.relativeModuleId} > ${test.fullName}`;
        // A name filter on the command line skips the rest without a reason; that is no news.
        const reason = reasonOf(test);
        if (reason !== undefined) skipped.set(reason, [...(skipped.get(reason) ?? []), name]);
        if (test.diagnostic()?.flaky) repeated.set(name, failuresOf(test));
      }
    }
    print("skipped", skipped);
    print("failed at first, passed when repeated", repeated);
  }
}

function print(title: string, entries: ReadonlyMap<string, readonly string[]>): void {
  for (const [name, lines] of entries) process.stdout.write(`\n${title}: ${name}\n${lines.map((line) => `  ${line}\n`).join("")}`);
}

function reasonOf(test: TestCase): string | undefined {
  const result = test.result();
  if (result.state !== "skipped") return undefined;
  if (result.note) return result.note;
  return test.options.mode === "skip" || test.options.mode === "todo" ? "marked as skipped without a reason" : undefined;
}

/** The first line of each failure; the rest is of no use without the whole. */
function failuresOf(test: TestCase): string[] {
  return (test.result().errors ?? []).map(({ message }) => message.split("\n", 1)[0] ?? "");
}
