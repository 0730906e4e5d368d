import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { root } from "./run.mjs";
import { listFiles } from "./stamps.mjs";

/** Documents that name source files; they must follow renames. */
const documents = ["docs/architecture.md", "docs/pipeline.md", "CONTRIBUTING.md"];
const folders = ["src", "probes", "proto", "scripts", "test", "bench", "docs"];
/** A source file or folder: `src/agent/agent.ts`, `agent.ts`, `http2.h`, `src/traffic/tls/`. Globs and placeholders are not names. */
const named =
  /(?<![\w<*./-])((?:[\w.-]+\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|mjs|[ch]|proto)|(?:src|probes|test|scripts|bench)\/(?:[\w-]+\/)+)(?![\w*<])/g;

/** @returns {string[]} `document: name`, for each named file that does not exist */
export function missingNamedFiles() {
  const paths = folders.flatMap((folder) => listFiles(join(root, folder)).map((file) => `${folder}/${file}`));
  const known = new Set([...paths, ...paths.map((path) => basename(path))]);
  const isThere = (/** @type {string} */ name) =>
    known.has(name) ||
    existsSync(join(root, name)) ||
    paths.some((path) => (name.endsWith("/") ? path.startsWith(name) : path.endsWith(`/${name}`)));
  return documents.flatMap((document) => {
    const text = readFileSync(join(root, document), "utf8");
    const names = new Set([...text.matchAll(named)].map(([, name = ""]) => name.replace(/^(?:\.\.\/)+/, "")));
    return [...names].filter((name) => !isThere(name)).map((name) => `${document}: ${name}`);
  });
}
