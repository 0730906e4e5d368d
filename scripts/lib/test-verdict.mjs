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

/** Chance does not fail more files than this. */
const maxRepeatedFiles = 6;

/** @type {Outcome} A run that ended before it could report. */
export const noOutcome = { passed: 0, failed: 0, skipped: 0, failedFiles: null };

/**
 * @param {readonly Outcome[]} rounds
 * @returns {string[]} empty when nothing failed, when too much failed, or when a failure belongs to no file
 */
export function filesToRepeat(rounds) {
  const failed = rounds.flatMap(({ failedFiles }) => Object.keys(failedFiles ?? {}));
  const isAttributed = rounds.every(({ failedFiles }) => failedFiles !== null);
  return isAttributed && failed.length <= maxRepeatedFiles ? failed : [];
}

/**
 * @param {readonly Outcome[]} rounds
 * @param {Outcome | null} repeat of the files that failed; null when nothing was repeated
 * @param {readonly QuarantineEntry[]} quarantine
 * @returns {Verdict}
 */
export function judge(rounds, repeat, quarantine) {
  const sum = (/** @type {"passed" | "failed" | "skipped"} */ state) => rounds.reduce((total, outcome) => total + outcome[state], 0);
  const passedOnRepeat = repeat === null ? [] : filesPassedOnRepeat(rounds, repeat);
  const listed = new Set(quarantine.map(({ path }) => path));
  const quarantined = passedOnRepeat.filter((path) => listed.has(path));
  const forgiven = rounds.flatMap(({ failedFiles }) => Object.entries(failedFiles ?? {})).filter(([path]) => quarantined.includes(path));
  const forgivenTests = forgiven.reduce((total, [, tests]) => total + tests, 0);
  const failedFileCount = rounds.reduce((total, { failedFiles }) => total + Object.keys(failedFiles ?? {}).length, 0);
  return {
    isGreen: rounds.every(({ failedFiles }) => failedFiles !== null) && failedFileCount === forgiven.length,
    passed: sum("passed") + forgivenTests,
    failed: sum("failed") - forgivenTests,
    skipped: sum("skipped"),
    failedTwice: Object.keys(repeat?.failedFiles ?? {}),
    flaky: passedOnRepeat.filter((path) => !listed.has(path)),
    quarantined,
  };
}

/**
 * @param {readonly Outcome[]} rounds
 * @param {Outcome} repeat
 */
function filesPassedOnRepeat(rounds, repeat) {
  const { failedFiles } = repeat;
  if (failedFiles === null) return [];
  return rounds.flatMap((outcome) => Object.keys(outcome.failedFiles ?? {})).filter((path) => !Object.hasOwn(failedFiles, path));
}
