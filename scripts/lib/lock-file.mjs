import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./run.mjs";

/**
 * @typedef {{ version?: string, dev?: boolean, optional?: boolean, cpu?: string[], os?: string[], libc?: string[], optionalDependencies?: Record<string, string> }} Entry
 * @typedef {{ packages: Record<string, Entry> }} LockFile
 */

const file = join(root, "package-lock.json");
const systems = ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32"];
const processors = ["arm64", "arm", "ia32", "loong64", "mips64el", "ppc64", "riscv64", "s390x", "wasm32", "x64"];

/** @returns {LockFile} */
function readLockFile() {
  return JSON.parse(readFileSync(file, "utf8"));
}

/**
 * npm omits optional packages from the lock file if the registry in use does not serve them, and `npm ci` then rejects that lock file
 * everywhere. These packages are native tools for other platforms.
 * @param {LockFile} lock
 * @returns {Map<string, Entry>} entries to add, by path
 */
function missingEntries({ packages }) {
  /** @type {Map<string, Entry>} */
  const missing = new Map();
  for (const [path, entry] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      if (isResolved(packages, path, name)) continue;
      missing.set(`node_modules/${name}`, { version, ...platformOf(name), ...(entry.dev ? { dev: true } : {}), optional: true });
    }
  }
  return missing;
}

/**
 * Resolves like Node: in the package's own node_modules, then outwards.
 * @param {Record<string, Entry>} packages @param {string} from @param {string} name
 */
function isResolved(packages, from, name) {
  for (let directory = from; ; directory = directory.slice(0, Math.max(0, directory.lastIndexOf("node_modules/") - 1))) {
    if (`${directory === "" ? "" : `${directory}/`}node_modules/${name}` in packages) return true;
    if (directory === "") return false;
  }
}

/**
 * Platform fields from a package name such as binding-linux-arm64-musl, so that npm skips packages for other platforms.
 * @param {string} name
 * @returns {Pick<Entry, "cpu" | "os" | "libc">}
 */
function platformOf(name) {
  const parts = (name.split("/").at(-1) ?? name).split("-");
  const os = systems.find((system) => parts.includes(system));
  const cpu = processors.find((processor) => parts.includes(processor));
  const libc = parts.some((part) => part.startsWith("musl")) ? "musl" : parts.some((part) => part.startsWith("gnu")) ? "glibc" : undefined;
  return { ...(cpu ? { cpu: [cpu] } : {}), ...(os ? { os: [os] } : {}), ...(libc ? { libc: [libc] } : {}) };
}

/** @returns {string[]} names of the packages that the lock file lacks */
export function missingFromLockFile() {
  return [...missingEntries(readLockFile()).keys()].map((path) => path.slice("node_modules/".length));
}

/** @returns {string[]} names of the packages that were added */
export function completeLockFile() {
  const lock = readLockFile();
  const missing = missingEntries(lock);
  const packages = Object.entries({ ...lock.packages, ...Object.fromEntries(missing) }).sort(([left], [right]) =>
    left.localeCompare(right, "en"),
  );
  if (missing.size > 0) writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(packages) }, null, 2)}\n`);
  return [...missing.keys()];
}
