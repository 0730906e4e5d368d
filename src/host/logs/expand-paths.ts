import { readdir } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { matcherOf } from "../../base/name-pattern.ts";

const packed = /\.(?:gz|bz2|xz|zst|lz4|zip|tgz|Z)$/;
/** Rotated files: compressed, or with a number or date at the end of their name. Their lines were read under the original name. */
const rotated = /\.(?:gz|bz2|xz|zst|lz4|zip|tgz|Z)$|\.\d{1,3}$|[-.]\d{8}(?:[-.]\d+)?$|\.old$/;

/** Whether a file next to `path` is a rotated version of it: `app.log.1`, `app.log-20261115`, `app-20261115.log`, `app.1.log`, also compressed. */
export function isRotatedName(path: string, beside: string): boolean {
  const name = basename(path);
  const other = basename(beside);
  if (other === name || dirname(path) !== dirname(beside)) return false;
  if (other.startsWith(name)) return rotated.test(other);
  const ending = extname(name);
  const stem = basename(name, ending);
  if (ending === "" || !other.startsWith(stem)) return false;
  const [, middle] = /^(.*?)(?:\.(?:gz|bz2|xz|zst|lz4|zip|Z))?$/.exec(other.slice(stem.length)) ?? [];
  return middle !== undefined && middle.endsWith(ending) && /^[-._]\d[-._\dT:]*$/.test(middle.slice(0, -ending.length));
}

/** Whether the file is compressed. */
export function isPacked(path: string): boolean {
  return packed.test(path);
}

/** Existing files that match a pattern, without rotated ones; `*` matches anything but a slash. A path without `*` is returned as is. At most `limit`, by name. */
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
  // A missing or unreadable directory has no files.
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => matches(entry.name) && (isLast ? !entry.isDirectory() && !rotated.test(entry.name) : !entry.isFile()))
    .map((entry) => join(directory, entry.name))
    .sort();
}
