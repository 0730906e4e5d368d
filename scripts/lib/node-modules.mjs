import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { mustRun, root } from "./run.mjs";

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean, os?: string[], cpu?: string[], libc?: string[] }} LockedPackage
 */

/** @param {string} path @returns {Record<string, LockedPackage> | undefined} */
function lockedPackages(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), "utf8")).packages;
  } catch {
    // Missing or truncated: treated as not installed.
    return undefined;
  }
}

function libc() {
  if (process.report === undefined) return "glibc";
  /** @type {{ header?: { glibcVersionRuntime?: string } }} */
  const report = process.report.getReport();
  return report.header?.glibcVersionRuntime ? "glibc" : "musl";
}

/** @param {LockedPackage} entry */
function isForThisMachine(entry) {
  return (
    (entry.os?.includes(process.platform) ?? true) &&
    (entry.cpu?.includes(process.arch) ?? true) &&
    (entry.libc === undefined || entry.libc.includes(libc()))
  );
}

/**
 * Compares npm's record of installed packages with the lock file, so that a manual install counts too.
 * @returns {boolean}
 */
export function isInstalled() {
  const wanted = lockedPackages("package-lock.json");
  const present = lockedPackages("node_modules/.package-lock.json");
  if (wanted === undefined || present === undefined) return false;
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === "") continue;
    const installed = present[path];
    if (installed === undefined) {
      if (!isForThisMachine(entry) || (entry.optional && entry.os === undefined)) continue;
      return false;
    }
    if (installed.version !== entry.version || installed.integrity !== entry.integrity) return false;
    if (!existsSync(join(root, path, "package.json"))) return false;
  }
  return Object.keys(present).every((path) => path in wanted);
}

/** Runs `npm ci` without install scripts: all dependencies ship prebuilt. */
export async function install() {
  const npm = process.env["npm_execpath"];
  const args = [
    "ci",
    "--include=dev",
    "--include=optional",
    "--ignore-scripts",
    "--prefer-offline",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
  ];
  const advice =
    'Cannot install the npm packages; with network access to the npm registry (or a filled npm cache) run "npm run setup" again';
  if (npm?.endsWith(".js") && existsSync(npm)) await mustRun(process.execPath, [npm, ...args], advice);
  else await mustRun("npm", args, advice);
}
