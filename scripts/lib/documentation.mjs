import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { bundleOptions } from "./bundle.mjs";
import { root } from "./run.mjs";

const toolInputs = "src/cli/run/tool-inputs.ts";

/**
 * Bundles a file of src/ and runs it.
 * @param {string} entryPoint
 * @returns {Promise<unknown>} its module
 */
async function load(entryPoint) {
  const { build } = await import("esbuild");
  const outfile = join(root, "build", basename(entryPoint).replace(/\.ts$/, ".js"));
  await build({ ...bundleOptions, absWorkingDir: root, entryPoints: [entryPoint], outfile });
  return import(`${pathToFileURL(outfile).href}?at=${Date.now()}`);
}

/** @returns {Promise<Record<string, string>>} the generated source of the CLI by path relative to the checkout */
async function renderToolInputs() {
  const module = /** @type {{ renderToolInputs(): string }} */ (await load("src/main/tool-inputs.ts"));
  return { [toolInputs]: module.renderToolInputs() };
}

/** @returns {Promise<Record<string, string>>} the documents about commands and settings by path relative to the checkout */
async function renderDocuments() {
  const module = /** @type {{ renderDocuments(read: (path: string) => string): Record<string, string> }} */ (
    await load("src/main/documents.ts")
  );
  return module.renderDocuments((path) => readFileSync(join(root, path), "utf8"));
}

/**
 * @param {Record<string, string>} files
 * @returns {string[]} those that differ from the checkout
 */
function staleFiles(files) {
  return Object.keys(files).filter((path) => {
    const file = join(root, path);
    return !existsSync(file) || readFileSync(file, "utf8") !== files[path];
  });
}

/**
 * @param {Record<string, string>} files
 * @returns {string[]} those that were rewritten
 */
function writeStale(files) {
  const stale = staleFiles(files);
  for (const path of stale) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), files[path] ?? "");
  }
  return stale;
}

/** @returns {Promise<string[]>} generated files that do not match the code */
export async function staleDocuments() {
  return [...staleFiles(await renderToolInputs()), ...staleFiles(await renderDocuments())];
}

/** @returns {Promise<string[]>} generated files that were rewritten */
export async function writeDocuments() {
  // First the tools' inputs: the command table, and with it docs/cli.md, is made from them.
  const sources = writeStale(await renderToolInputs());
  return [...sources, ...writeStale(await renderDocuments())];
}
