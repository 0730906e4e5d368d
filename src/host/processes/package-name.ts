/** The name in a program's manifest, for programs with generic paths such as `app/server` or `app/main`. */

import { dirname } from "node:path";
import type { HostRoot } from "../files/host-root.ts";
import { isGenericName } from "../naming/path-name.ts";
import type { ScriptProgram } from "./script-builds.ts";

const maxManifestBytes = 256 * 1024;
const maxLevels = 5;

export function packageNameOf(root: HostRoot, { prefix, files }: ScriptProgram): string | null {
  const manifest = files.find(({ use }) => use === "version");
  return manifest === undefined ? null : nameIn(root, prefix + manifest.path);
}

/** Of an executable in a build's directory: `/app/target/release/server`. `path` is on the host. */
export function crateNameOf(root: HostRoot, path: string): string | null {
  let directory = dirname(path);
  for (let level = 0; level < maxLevels && directory !== "/"; level++, directory = dirname(directory)) {
    if (root.stat(`${directory}/Cargo.toml`)?.isFile) return nameIn(root, `${directory}/Cargo.toml`);
  }
  return null;
}

function nameIn(root: HostRoot, path: string): string | null {
  const text = root.readText(path, undefined, maxManifestBytes);
  const name = text === null ? null : path.endsWith(".json") ? nameInJson(text) : /^\s*name\s*=\s*["']([^"']{1,214})["']/m.exec(text)?.[1];
  // `@acme/api` of npm and `acme/api` of Composer are `api` of acme.
  const own = name?.replace(/^[^/]*\//, "") ?? "";
  return own === "" || isGenericName(own) ? null : own;
}

function nameInJson(text: string): string | null {
  try {
    const { name } = JSON.parse(text) as { name?: unknown };
    return typeof name === "string" ? name : null;
  } catch {
    // Partially written, or not JSON: no name.
    return null;
  }
}
