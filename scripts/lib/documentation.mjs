import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { bundleOptions } from "./bundle.mjs";
import { root } from "./run.mjs";

/**
 * Renders the documents about commands and settings from the code.
 * @returns {Promise<Record<string, string>>} text by path relative to the checkout
 */
async function renderDocuments() {
  const { build } = await import("esbuild");
  const outfile = join(root, "build/documents.js");
  await build({ ...bundleOptions, absWorkingDir: root, entryPoints: ["src/main/documents.ts"], outfile });
  /** @type {{ renderDocuments(read: (path: string) => string): Record<string, string> }} */
  const module = await import(`${pathToFileURL(outfile).href}?at=${Date.now()}`);
  return module.renderDocuments((path) => readFileSync(join(root, path), "utf8"));
}

/** @returns {Promise<string[]>} documents that do not match the code */
export async function staleDocuments() {
  const documents = await renderDocuments();
  return Object.keys(documents).filter((path) => {
    const file = join(root, path);
    return !existsSync(file) || readFileSync(file, "utf8") !== documents[path];
  });
}

/** @returns {Promise<string[]>} documents that were rewritten */
export async function writeDocuments() {
  const stale = await staleDocuments();
  const documents = await renderDocuments();
  for (const path of stale) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), documents[path] ?? "");
  }
  return stale;
}
