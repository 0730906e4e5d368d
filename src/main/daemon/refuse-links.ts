import { readdirSync } from "node:fs";
import { join } from "node:path";
import { CoralError } from "../../base/errors.ts";

/**
 * Before root lets DuckDB, which follows links, work in a directory of the user who ran sudo. What that user puts there while the daemon runs is not
 * seen: DuckDB opens its files by name again after a checkpoint.
 */
export function refuseLinks(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true })) {
    if (!entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    throw new CoralError({
      code: "not-permitted",
      message: `Cannot use "${path}" as root: it is a symbolic link; remove it, or start without sudo`,
      details: { path },
    });
  }
}
