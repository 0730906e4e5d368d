// `npm test [-- vitest arguments]`: set-up, checks, all tests. With arguments only those tests run, without the checks.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { requireNode } from "./lib/require-node.mjs";

requireNode();
const { setup } = await import("./lib/setup.mjs");
const { check } = await import("./lib/check.mjs");
const { reportFailure, warn } = await import("./lib/report.mjs");
const { moduleFile, runVisibly } = await import("./lib/run.mjs");

/** More files than this do not fail by chance. */
const maxRepeatedFiles = 6;

/** @param {readonly string[]} args */
const vitest = (args) => runVisibly(process.execPath, [moduleFile("vitest/vitest.mjs"), "run", ...args]);

/**
 * All tests. Files that fail are run once more, from their beginning and when nothing else runs: the tests share their machine with others. Not within
 * a file, where a test would meet what its first try has left.
 */
async function testAll() {
  const directory = mkdtempSync(join(tmpdir(), "coral-test-"));
  const list = join(directory, "failed.json");
  try {
    process.env["CORAL_FAILED_TEST_FILES"] = list;
    const code = await vitest([]);
    if (code === 0) return 0;
    const failed = existsSync(list) ? /** @type {string[]} */ (JSON.parse(readFileSync(list, "utf8"))) : [];
    if (failed.length === 0 || failed.length > maxRepeatedFiles) return code;
    warn(`failed, and run once more: ${failed.join(" ")}`);
    const again = await vitest(failed);
    if (again === 0) warn(`failed at first, passed when repeated: ${failed.join(" ")}`);
    return again;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const selection = process.argv.slice(2);
try {
  await setup({ forTests: true });
  if (selection.length === 0) await check({ withBoundaries: false });
  process.exitCode = selection.length === 0 ? await testAll() : await vitest(selection);
} catch (error) {
  reportFailure(error);
}
