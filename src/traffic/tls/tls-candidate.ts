import { findExportedFunctions, isGoProgram, mayDefine, readElfImage } from "../../code/index.ts";
import { type OpenedFile } from "../../host/index.ts";

/** What is looked through at once, at about a gigabyte a second. */
const maxStringBytes = 2 * 1024 * 1024;
const sign = "SSL_read";

/**
 * Whether a file is worth a plan: a few small reads, and for programs with a full table of symbols a look through their names. Says yes to everything
 * that `planProbes()` has a plan for, and to other programs that are written in Go or very large.
 */
export function mayMakeTls({ readAt }: Pick<OpenedFile, "readAt">, isExecutable: boolean): boolean {
  const image = readElfImage(readAt);
  if (image === null) return false;
  if (findExportedFunctions(image, [sign]).size > 0) return true;
  return isExecutable && (isGoProgram(image) || mayDefine(image, sign, maxStringBytes));
}
