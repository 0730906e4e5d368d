import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./run.mjs";

/**
 * All files below a directory, as sorted paths relative to it; empty if it does not exist.
 * @param {string} directory
 * @returns {string[]}
 */
export function listFiles(directory) {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
    .sort();
}

/**
 * All files below a directory of the checkout, relative to the checkout.
 * @param {string} directory relative to the checkout
 * @param {(file: string) => boolean} [wanted]
 */
export function filesBelow(directory, wanted = () => true) {
  return listFiles(join(root, directory))
    .map((file) => join(directory, file))
    .filter(wanted);
}

/**
 * Hashes names and contents of files, and extra facts such as versions.
 * @param {readonly string[]} files relative to the checkout
 * @param {readonly string[]} [facts]
 */
export function hashOf(files, facts = []) {
  const hash = createHash("sha256");
  for (const file of files) {
    const bytes = readFileSync(join(root, file));
    hash.update(`${file}\0${bytes.length}\0`).update(bytes);
  }
  for (const fact of facts) hash.update(`${fact}\0`);
  return hash.digest("hex");
}

/** @param {string} file relative to the checkout @returns {string} empty when there is no stamp */
export function readStamp(file) {
  try {
    return readFileSync(join(root, file), "utf8").trim();
  } catch {
    // A missing or unreadable stamp only means that the step runs again.
    return "";
  }
}

/** @param {string} file relative to the checkout @param {string} value */
export function writeStamp(file, value) {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), `${value}\n`);
}
