import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { matcherOf } from "../../base/name-pattern.ts";

/** What rotation leaves: packed, or under a name with a number or a date at its end. Its lines were read under its first name. */
const rotated = /\.(?:gz|bz2|xz|zst|lz4|zip|tgz|Z)$|\.\d{1,3}$|[-.]\d{8}(?:[-.]\d+)?$|\.old$/;

/** Existing files of a pattern (not those that rotation has renamed) whose `*` stand for anything but a slash, and the path itself when there is none. At most `limit`, by name. */
export async function expandPaths(pattern: string, limit: number): Promise<string[]> {
  if (!pattern.includes("*")) return [pattern];
  let found = ["/"];
  const parts = pattern.split("/").filter((part) => part !== "");
  for (const [index, part] of parts.entries()) {
    const isLast = index === parts.length - 1;
    const next: string[] = [];
    for (const directory of found) {
      if (next.length >= limit) break;
      if (part.includes("*")) next.push(...(await namesIn(directory, part, isLast)));
      else next.push(join(directory, part));
    }
    found = next.slice(0, limit);
  }
  return found;
}

async function namesIn(directory: string, pattern: string, isLast: boolean): Promise<string[]> {
  const matches = matcherOf([pattern]);
  // A folder that is gone or closed to us has no files for us.
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => matches(entry.name) && (isLast ? !entry.isDirectory() && !rotated.test(entry.name) : !entry.isFile()))
    .map((entry) => join(directory, entry.name))
    .sort();
}
