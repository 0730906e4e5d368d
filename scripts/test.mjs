// `npm test [-- vitest arguments]`: setup, checks, all tests. With arguments, only the selected tests run, without the checks.
import { requireNode } from "./lib/require-node.mjs";

requireNode();
const { setup } = await import("./lib/setup.mjs");
const { check } = await import("./lib/check.mjs");
const { reportFailure } = await import("./lib/report.mjs");
const { runAllTests, runTests } = await import("./lib/run-tests.mjs");

const selection = process.argv.slice(2);
try {
  await setup({ forTests: true });
  if (selection.length === 0) await check({ withBoundaries: false });
  process.exitCode = selection.length === 0 ? await runAllTests() : await runTests(selection);
} catch (error) {
  reportFailure(error);
}
