/** Address range files of a local colony. The colony watches the directory and reloads changes. */

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { CoralError } from "../../../base/errors.ts";
import { colonyPaths, resolveColony } from "../../../config/index.ts";
import { maxRangesFileBytes } from "../../../tools/index.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";

/** Throws `unsupported` for a colony on another machine. */
export async function rangesDirectoryOf(invocation: Invocation): Promise<string> {
  const home = homeOf(invocation);
  const colony = await resolveColony(home, invocation.colony);
  if (colony.kind === "local") return join(colonyPaths(home, colony.colonyId).directory, "ranges");
  throw new CoralError({
    code: "unsupported",
    message: `Cannot access the address ranges of colony "${colony.contextName}": they are files on ${colony.endpoint}; run "coral ${invocation.command}" there`,
  });
}

/** Files that the colony ignores: editor backups, unfinished downloads, notes. */
const ignored = /^\.|~$|\.(?:tmp|part|bak|md)$/;

/** Whether the colony reads a file of this name. */
export function isRangeFileName(name: string): boolean {
  return !ignored.test(name);
}

/** Sorted by name. */
export async function listRangeFiles(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).filter(isRangeFileName).sort();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw new CoralError({ code: "unavailable", message: `Cannot list "${directory}": ${String(error)}`, cause: error });
  }
}

/** Throws `not-found`, `exhausted` for a file that is too large, or `unavailable`. */
export async function readRangeFile(path: string): Promise<{ text: string; changedAtMs: number }> {
  try {
    const { size, mtimeMs } = await stat(path);
    if (size > maxRangesFileBytes) {
      throw new CoralError({
        code: "exhausted",
        message: `Cannot read ranges file "${path}": it has ${size} bytes; the limit is ${maxRangesFileBytes}`,
      });
    }
    return { text: await readFile(path, "utf8"), changedAtMs: mtimeMs };
  } catch (error) {
    if (error instanceof CoralError) throw error;
    const isAbsent = error instanceof Error && "code" in error && error.code === "ENOENT";
    throw new CoralError({
      code: isAbsent ? "not-found" : "unavailable",
      message: `Cannot read ranges file "${path}": ${isAbsent ? "no such file" : CoralError.from(error).message}`,
      cause: error,
    });
  }
}
