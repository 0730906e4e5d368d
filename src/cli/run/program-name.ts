/** Rewrites `coral status` in messages so that it works when pasted; in a checkout that is `bin/coral status`. */

import { realpathSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { shellWord } from "../../base/escape-text.ts";

export interface ProgramNameOptions {
  /** Path of the script as Node reports it, which is absolute even when a relative path was typed; a bare command name is kept. */
  script: string;
  env: Readonly<Record<string, string | undefined>>;
  currentDirectory: () => string;
}

/** `coral` when that name in PATH is this program, else its path, relative when it is below the current directory. */
export function programName({ script, env, currentDirectory }: ProgramNameOptions): string {
  if (!isAbsolute(script)) return script;
  const own = realPathOf(script);
  const found = (env["PATH"] ?? "")
    .split(":")
    .find((directory) => isAbsolute(directory) && realPathOf(join(directory, "coral")) !== undefined);
  if (found !== undefined && realPathOf(join(found, "coral")) === own) return "coral";
  const path = relativePath(script, currentDirectory);
  return shellWord(path.includes("/") ? path : `./${path}`);
}

/** Replaces `coral <command>` in a text with the program's name, which is determined on first use. */
export function createCommandNamer(commands: readonly string[], nameOf: () => string): (text: string) => string {
  const pattern = new RegExp(`(?<![\\w/.-])coral (?=(?:${commands.join("|")})\\b)`, "g");
  let name: string | undefined;
  return (text) =>
    text.replace(pattern, () => {
      name ??= nameOf();
      return `${name} `;
    });
}

/** Follows links, because npm and package managers install links. */
function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    // Missing file: not a match.
    return undefined;
  }
}

function relativePath(script: string, currentDirectory: () => string): string {
  try {
    const path = relative(currentDirectory(), script);
    return path.startsWith("..") ? script : path;
  } catch {
    // The current directory has been removed.
    return script;
  }
}
