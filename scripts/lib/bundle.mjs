import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { directImports } from "./direct-imports.mjs";
import { SetupError } from "./report.mjs";
import { root } from "./run.mjs";
import { filesBelow, hashOf, readStamp, writeStamp } from "./stamps.mjs";

/** Every program that runs as a process or thread, with its file name in dist/. */
const entryPoints = {
  coral: "src/main/coral.ts",
  "ability-child": "src/bpf/ability-child.ts",
  "traffic-process": "src/main/traffic-process.ts",
  "profile-process": "src/main/profile-process.ts",
  "tls-plan-child": "src/traffic/tls/plan-child.ts",
  "decode-worker": "src/main/decode-worker.ts",
  "sql-process": "src/main/sql-process.ts",
};
const stamp = "dist/.stamp";
/** Old chunks stay for an hour: a daemon that has just started from them may still load one lazily. */
const staleAfterMs = 60 * 60_000;

/** Bundled CommonJS packages call require() for Node's built-in modules; an ES module has no require(). */
const requireBanner =
  'import { createRequire as coralCreateRequire } from "node:module"; const require = coralCreateRequire(import.meta.url);';

/**
 * esbuild options that the product bundle and the benchmarks share. Native packages stay external.
 * @satisfies {import("esbuild").BuildOptions}
 */
export const bundleOptions = /** @type {const} */ ({
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  // Prefer ES modules: a lazily imported CommonJS package would have only a default export.
  mainFields: ["module", "main"],
  external: ["@duckdb/*", "koffi", "@lydell/node-pty"],
  banner: { js: requireBanner },
  legalComments: "eof",
  logLevel: "silent",
});

function inputHash() {
  const sources = filesBelow("src", (file) => file.endsWith(".ts") && !/\.(?:test|fixture)\.ts$/.test(file));
  return hashOf([...sources, "package.json", "package-lock.json", "scripts/lib/bundle.mjs", "scripts/lib/direct-imports.mjs"]);
}

/** @returns {boolean} */
export function isBundled() {
  return readStamp(stamp) === inputHash();
}

/** Builds dist/*.js with code splitting, so that a short command loads only what it uses. */
export async function bundle() {
  const hash = inputHash();
  const esbuild = await import("esbuild");
  let result;
  try {
    result = await esbuild.build({
      ...bundleOptions,
      absWorkingDir: root,
      entryPoints,
      outdir: "dist",
      // Chunks are in the same directory as the entry points, so that paths relative to import.meta.url work in all of them.
      chunkNames: "[name]-[hash]",
      splitting: true,
      plugins: [directImports],
      // The text of loaded code stays in memory, and with a single character beyond Latin-1, such as in a comment, each takes two bytes.
      // Lines keep places in stack traces readable.
      minifyWhitespace: true,
      lineLimit: 160,
      sourcemap: "linked",
      write: false,
    });
  } catch (error) {
    const failures = error instanceof Error && "errors" in error ? /** @type {import("esbuild").Message[]} */ (error.errors) : undefined;
    if (failures === undefined) throw error;
    throw new SetupError(
      "Cannot bundle src/; fix the errors above",
      (await esbuild.formatMessages(failures, { kind: "error" })).join("\n"),
    );
  } finally {
    // esbuild's service process would keep running beside Coral after `npm start`, with about 400 MiB.
    await esbuild.stop();
  }
  writeOutputs(result.outputFiles);
  writeStamp(stamp, hash);
}

/** @param {import("esbuild").OutputFile[]} outputs */
function writeOutputs(outputs) {
  const isEntry = (/** @type {string} */ path) => basename(path).replace(/\.js(\.map)?$/, "") in entryPoints;
  // Entry points last: until then bin/coral runs the complete old bundle.
  const ordered = [...outputs].sort((left, right) => Number(isEntry(left.path)) - Number(isEntry(right.path)));
  for (const { path, contents } of ordered) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.new`, contents);
    renameSync(`${path}.new`, path);
  }
  const kept = new Set(outputs.map(({ path }) => relative(join(root, "dist"), path)));
  for (const name of readdirSync(join(root, "dist"))) {
    const path = join(root, "dist", name);
    if (kept.has(name) || !/\.js(\.map|\.new)?$/.test(name)) continue;
    if (Date.now() - statSync(path).mtimeMs > staleAfterMs) rmSync(path);
  }
}
