import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { root } from "./run.mjs";
import { listFiles } from "./stamps.mjs";

/** A renamed file must not leave a document behind. Decision records are not checked: they keep the names of their time. */
const documents = () => [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];
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
  return documents().flatMap((document) => {
    const text = readFileSync(join(root, document), "utf8");
    const names = new Set([...text.matchAll(named)].map(([, name = ""]) => name.replace(/^(?:\.\.\/)+/, "")));
    return [...names].filter((name) => !isThere(name)).map((name) => `${document}: ${name}`);
  });
}
