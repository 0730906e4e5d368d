import { readdirSync } from "node:fs";
import { join } from "node:path";
import { CoralError } from "../../base/errors.ts";

/**
 * Rejects symbolic links in a directory of the user who ran sudo, before root lets DuckDB, which follows links, work there. Links
 * created while the daemon runs are not detected: DuckDB reopens files by name after a checkpoint.
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
