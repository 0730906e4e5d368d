/**
 * Decides whether a test run is green. A test file that failed and then passed when repeated is flaky: it fails the run unless test/quarantine.json lists it.
 */

/**
 * One vitest run, as written by test/outcome-reporter.ts.
 * @typedef {object} Outcome
 * @property {number} passed tests
 * @property {number} failed tests
 * @property {number} skipped tests
 * @property {Record<string, number> | null} failedFiles failed tests by path; 0 when a file failed outside of its tests. Null when a failure belongs to no file.
 */

/**
 * A test file that is known to be flaky, and why that cannot be fixed.
 * @typedef {{ path: string, reason: string }} QuarantineEntry
 */

/**
 * @typedef {object} Verdict
 * @property {boolean} isGreen
 * @property {number} passed tests, after the repeat
 * @property {number} failed tests that count against the run
 * @property {number} skipped tests
 * @property {string[]} failedTwice files
 * @property {string[]} flaky files that passed when repeated and are not in quarantine
 * @property {string[]} quarantined files that passed when repeated and are in quarantine
 */

/** More failed files than this are not flakiness; they are not repeated. */
const maxRepeatedFiles = 6;

/** @type {Outcome} A run that ended before it could report. */
export const noOutcome = { passed: 0, failed: 0, skipped: 0, failedFiles: null };

/**
 * @param {Outcome} outcome
 * @returns {string[]} empty when nothing failed, when too much failed, or when a failure belongs to no file
 */
export function filesToRepeat({ failedFiles }) {
  const failed = Object.keys(failedFiles ?? {});
  return failed.length <= maxRepeatedFiles ? failed : [];
}

/**
 * @param {Outcome} first of all tests
 * @param {Outcome | null} repeat of the files that failed; null when nothing was repeated
 * @param {readonly QuarantineEntry[]} quarantine
 * @returns {Verdict}
 */
export function judge(first, repeat, quarantine) {
  const failedFirst = Object.entries(first.failedFiles ?? {});
  const failedTwice = Object.keys(repeat?.failedFiles ?? {});
  const isRepeated = repeat !== null && repeat.failedFiles !== null;
  const passedOnRepeat = isRepeated ? failedFirst.filter(([path]) => !failedTwice.includes(path)) : [];
  const listed = new Set(quarantine.map(({ path }) => path));
  const tolerated = passedOnRepeat.filter(([path]) => listed.has(path));
  const toleratedTests = tolerated.reduce((total, [, tests]) => total + tests, 0);
  return {
    isGreen: first.failedFiles !== null && failedFirst.length === tolerated.length,
    passed: first.passed + toleratedTests,
    failed: first.failed - toleratedTests,
    skipped: first.skipped,
    failedTwice,
    flaky: passedOnRepeat.map(([path]) => path).filter((path) => !listed.has(path)),
    quarantined: tolerated.map(([path]) => path),
  };
}
