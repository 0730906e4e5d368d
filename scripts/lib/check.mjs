import { join } from "node:path";
import { formatProbes, whyNoClangFormat } from "./clang-format.mjs";
import { staleDocuments } from "./documentation.mjs";
import { generateCode, isGeneratedCodeChecked } from "./generated-code.mjs";
import { missingFromLockFile } from "./lock-file.mjs";
import { missingNamedFiles } from "./named-files.mjs";
import { fail, SetupError, say, step, warn } from "./report.mjs";
import { moduleFile, mustRun, root } from "./run.mjs";

/**
 * @typedef {{ name: string, work: () => Promise<unknown>, whySkip?: () => Promise<string | undefined> }} Check
 *   `whySkip` returns why this machine cannot run the check: `npm run check` also works without root and the packages that setup installs.
 */

/**
 * @param {string} file a tool's JavaScript below node_modules
 * @param {string[]} args
 * @param {string} advice
 */
const tool = (file, args, advice) => () => mustRun(process.execPath, [moduleFile(file), ...args], advice);

/** @type {Check[]} Checks that read types, two thirds of the time. */
const typed = [
  { name: "types (tsc -b)", work: tool("typescript/bin/tsc", ["-b"], "There are type errors") },
  {
    name: "lint (oxlint)",
    work: tool("oxlint/bin/oxlint", ["--type-aware", "--deny-warnings", "--format=unix"], "The linter found problems"),
  },
];

/** @type {Check[]} */
const others = [
  {
    name: "format (biome)",
    work: tool("@biomejs/biome/bin/biome", ["ci", "--colors=off", "."], "Files are not formatted; run: npm run format"),
  },
  { name: "format (clang-format)", work: () => formatProbes({ write: false }), whySkip: whyNoClangFormat },
  { name: "unused code (knip)", work: tool("knip/bin/knip.js", ["--no-progress"], "There is unused code or an unused dependency") },
  {
    name: "wire contracts (buf lint)",
    work: () => mustRun(join(root, "node_modules/.bin/buf"), ["lint"], "proto/ breaks the rules of buf.yaml"),
  },
  { name: "lock file", work: checkLockFile },
  { name: "generated code", work: checkGeneratedCode },
  { name: "documentation", work: checkDocumentation },
];

/** @type {Check} */
const boundaries = {
  name: "boundaries",
  work: tool(
    "vitest/vitest.mjs",
    ["run", "--project=unit", "--reporter=dot", "test/boundaries.test.ts"],
    "An import violates the boundary table in test/boundaries.ts",
  ),
};

async function checkLockFile() {
  const missing = missingFromLockFile();
  if (missing.length > 0) throw new SetupError(`package-lock.json lacks ${missing.join(", ")}; run: npm run lock`);
}

async function checkGeneratedCode() {
  if (isGeneratedCodeChecked()) return;
  const stale = await generateCode({ write: false });
  if (stale.length > 0) throw new SetupError(`${stale.join(", ")} does not match what it is generated from; run: npm run generate`);
}

async function checkDocumentation() {
  const stale = await staleDocuments();
  if (stale.length > 0) throw new SetupError(`${stale.join(", ")} is out of date; run: npm run docs`);
  const missing = missingNamedFiles();
  if (missing.length > 0) throw new SetupError(`Documents name files that do not exist:\n${missing.join("\n")}`);
}

/**
 * Runs every check even after a failure, so that one run shows all problems. Two run at a time: tsc and oxlint are partly single-threaded.
 * @param {{ withBoundaries: boolean }} options false if the whole test suite runs afterwards, which contains the boundary test
 */
export async function check({ withBoundaries }) {
  const failed = await Promise.all([runInTurn(typed), runInTurn(withBoundaries ? [...others, boundaries] : others)]);
  const names = failed.flat();
  if (names.length > 0) throw new SetupError(`Checks failed: ${names.join(", ")}`);
}

/**
 * @param {readonly Check[]} checks
 * @returns {Promise<string[]>} names of those that failed
 */
async function runInTurn(checks) {
  /** @type {string[]} */
  const failed = [];
  for (const { name, work, whySkip } of checks) {
    const reason = await whySkip?.();
    if (reason !== undefined) {
      warn(`${name} skipped: ${reason}`);
      continue;
    }
    try {
      await step(name, work);
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      if (error.output.trim() !== "") say(error.output.trimEnd());
      fail(error.message);
      failed.push(name);
    }
  }
  return failed;
}
