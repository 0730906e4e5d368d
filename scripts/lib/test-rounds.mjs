import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { warn } from "./report.mjs";
import { moduleFile, runVisibly } from "./run.mjs";

/** @typedef {{ passed: number, failed: number, skipped: number, failedFiles: string[] | null }} Outcome as written by test/outcome-reporter.ts */

/** More files than this do not fail by chance. */
const maxRepeatedFiles = 6;

/**
 * Runs some tests and returns vitest's exit code.
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [more] environment
 */
export function runTests(args, more) {
  return runVisibly(process.execPath, [moduleFile("vitest/vitest.mjs"), "run", ...args], more);
}

/**
 * Runs all tests, in three rounds: daemons, which wait most of the time; what needs nothing but a processor; and by themselves those that load BPF programs, for
 * which seconds without a processor are losses. Files that fail are run once more, from their beginning: the tests share their machine with others. Not within a
 * file, where a test would meet what its first try has left.
 * @returns {Promise<number>} an exit code
 */
export async function runAllTests() {
  const directory = mkdtempSync(join(tmpdir(), "coral-test-"));
  try {
    /** @type {Outcome[]} */
    const rounds = [];
    for (const projects of [["e2e", "integration"], ["unit"], ["privileged"]]) {
      const args = projects.map((name) => `--project=${name}`);
      rounds.push(await outcomeOf(join(directory, String(rounds.length)), args));
    }
    const again = await repeatFailed(join(directory, "again"), rounds);
    const sum = (/** @type {"passed" | "failed" | "skipped"} */ what) => rounds.reduce((total, outcome) => total + outcome[what], 0);
    const mended = again === null ? 0 : sum("failed") - again.failed;
    process.stdout.write(`${sum("passed") + mended} passed, ${sum("failed") - mended} failed, ${sum("skipped")} skipped\n`);
    const isGreen = again === null ? rounds.every(isWell) : isWell(again);
    return isGreen ? 0 : 1;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * @param {string} target where the outcome is written
 * @param {readonly string[]} args
 */
async function outcomeOf(target, args) {
  const code = await runTests(args, { CORAL_TEST_OUTCOME: target });
  return readOutcome(target, code);
}

/**
 * @param {string} target
 * @param {number} code
 * @returns {Outcome}
 */
function readOutcome(target, code) {
  const none = { passed: 0, failed: 0, skipped: 0, failedFiles: null };
  const outcome = existsSync(target) ? /** @type {Outcome} */ (JSON.parse(readFileSync(target, "utf8"))) : none;
  // A run may fail for what is no test of a file.
  return code !== 0 && outcome.failedFiles?.length === 0 ? { ...outcome, failedFiles: null } : outcome;
}

/** @param {Outcome} outcome */
function isWell({ failed, failedFiles }) {
  // Where nothing may be loaded, a whole round is skipped.
  return failed === 0 && failedFiles?.length === 0;
}

/**
 * @param {string} target
 * @param {readonly Outcome[]} rounds
 * @returns {Promise<Outcome | null>} null when there is nothing to repeat, or too much
 */
async function repeatFailed(target, rounds) {
  const failed = rounds.flatMap(({ failedFiles }) => failedFiles ?? []);
  const isByChance = failed.length > 0 && failed.length <= maxRepeatedFiles && rounds.every(({ failedFiles }) => failedFiles !== null);
  if (!isByChance) return null;
  warn(`failed, and run once more: ${failed.join(" ")}`);
  const again = await outcomeOf(target, failed);
  if (isWell(again)) warn(`failed at first, passed when repeated: ${failed.join(" ")}`);
  return again;
}
