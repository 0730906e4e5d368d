import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fail, warn } from "./report.mjs";
import { moduleFile, root, runVisibly } from "./run.mjs";
import { filesToRepeat, judge, noOutcome } from "./test-verdict.mjs";

/** @typedef {import("./test-verdict.mjs").Outcome} Outcome */
/** @typedef {import("./test-verdict.mjs").QuarantineEntry} QuarantineEntry */
/** @typedef {import("./test-verdict.mjs").Verdict} Verdict */

/**
 * Runs the selected tests and returns vitest's exit code.
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [more] environment
 */
export function runTests(args, more) {
  return runVisibly(process.execPath, [moduleFile("vitest/vitest.mjs"), "run", ...args], more);
}

/**
 * Runs all tests, then repeats failed files, to separate flaky tests from broken ones. Repeats whole files, because a second try
 * within a file would meet state that the first one left.
 * @returns {Promise<number>} an exit code
 */
export async function runAllTests() {
  const directory = mkdtempSync(join(tmpdir(), "coral-test-"));
  try {
    const first = await runForOutcome(join(directory, "first"), []);
    const failed = filesToRepeat(first);
    if (failed.length > 0) warn(`failed, repeating: ${failed.join(" ")}`);
    const repeat = failed.length > 0 ? await runForOutcome(join(directory, "repeat"), failed) : null;
    const verdict = judge(first, repeat, readQuarantine());
    report(verdict);
    return verdict.isGreen ? 0 : 1;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * @param {string} target where the outcome is written
 * @param {readonly string[]} args
 * @returns {Promise<Outcome>}
 */
async function runForOutcome(target, args) {
  const code = await runTests(args, { CORAL_TEST_OUTCOME: target });
  const outcome = existsSync(target) ? /** @type {Outcome} */ (JSON.parse(readFileSync(target, "utf8"))) : noOutcome;
  // vitest also fails for reasons outside of any test file.
  const isUnexplained = code !== 0 && Object.keys(outcome.failedFiles ?? {}).length === 0;
  return isUnexplained ? { ...outcome, failedFiles: null } : outcome;
}

/** @returns {QuarantineEntry[]} */
function readQuarantine() {
  return JSON.parse(readFileSync(join(root, "test/quarantine.json"), "utf8"));
}

/** @param {Verdict} verdict */
function report({ passed, failed, skipped, failedTwice, flaky, quarantined }) {
  for (const path of quarantined) warn(`${path}: failed, then passed when repeated: in quarantine, tolerated`);
  for (const path of flaky)
    fail(`${path}: failed, then passed when repeated: not in quarantine; fix it or list it in test/quarantine.json with the reason`);
  for (const path of failedTwice) fail(`${path}: failed twice`);
  process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
}
