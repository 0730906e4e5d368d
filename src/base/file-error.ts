/** Explains failed system calls on files: the reason, and the fix. */

import { CoralError, type ErrorCode } from "./errors.ts";

const reasons: Record<string, { code: ErrorCode; text: string }> = {
  EACCES: { code: "not-permitted", text: "permission denied; check the owner of the directory" },
  EPERM: { code: "not-permitted", text: "operation not permitted; check the owner of the directory" },
  EROFS: { code: "not-permitted", text: "the file system is read-only; set CORAL_HOME elsewhere" },
  ENOSPC: { code: "unavailable", text: "the disk is full; free some space" },
  EDQUOT: { code: "unavailable", text: "the disk quota is used up; free some space" },
  EEXIST: { code: "unavailable", text: "a file exists where the directory should be" },
  ENOTDIR: { code: "unavailable", text: "a part of the path is a file, not a directory" },
  EMFILE: { code: "unavailable", text: "too many open files; raise the limit of open files (ulimit -n)" },
  ENFILE: { code: "unavailable", text: "the host has too many open files; raise fs.file-max" },
};

/** `Cannot <verb> "<path>": <reason>; <fix>`. Returns a CoralError unchanged. */
export function fileError(verb: string, path: string, error: unknown): CoralError {
  if (error instanceof CoralError) return error;
  const known = reasons[errnoOf(error) ?? ""];
  const text = known?.text ?? (error instanceof Error ? error.message : String(error));
  return new CoralError({ code: known?.code ?? "internal", message: `Cannot ${verb} "${path}": ${text}`, cause: error, details: { path } });
}

/** Such as `ENOENT`; undefined for anything but a failed system call. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
