/**
 * The only error class of Coral. `code` is the kind of failure and maps 1:1 to an exit code of the CLI, an HTTP status and an RPC code.
 * Messages: verb first, state after the colon, values quoted, no full stop: `Cannot attach probe "x": process 42 has exited`.
 */

export type ErrorCode =
  | "usage" // the command line is wrong: unknown flag, malformed value
  | "invalid" // data does not match its schema: config, request body
  | "not-found"
  | "already-exists"
  | "unauthenticated" // missing, wrong or expired certificate or token
  | "not-permitted" // authenticated, but permission denied
  | "unsupported" // this host or these targets do not support it
  | "unavailable" // retry later: daemon not running, busy, disk full
  | "timeout"
  | "cancelled"
  | "exhausted" // a limit was reached: rows, bytes, memory
  | "corrupt" // stored data is damaged
  | "internal";

export interface CoralErrorOptions {
  code: ErrorCode;
  message: string;
  cause?: unknown;
  /** Machine-readable facts: file, line, allowed values. Never secrets. */
  details?: Record<string, unknown>;
}

export class CoralError extends Error {
  override readonly name = "CoralError";
  readonly code: ErrorCode;
  readonly details: Record<string, unknown>;

  constructor(options: CoralErrorOptions) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.details = options.details ?? {};
  }

  /** For boundaries only (RPC, CLI, tool call, native code): returns a CoralError unchanged and wraps anything else with its cause. */
  static from(error: unknown, code: ErrorCode = "internal"): CoralError {
    if (error instanceof CoralError) return error;
    if (isSuppressed(error)) return CoralError.from(error.suppressed, code);
    if (error instanceof Error) {
      const isAbort = error.name === "AbortError";
      return new CoralError({ code: isAbort ? "cancelled" : code, message: error.message, cause: error });
    }
    return new CoralError({ code, message: String(error), cause: error });
  }
}

/** `await using` wraps the failure of its block if closing fails too. The first one is the interesting one. */
function isSuppressed(error: unknown): error is { suppressed: unknown } {
  return error instanceof Error && error.name === "SuppressedError" && "suppressed" in error;
}

/** 0 success (also partial) · 1 failed · 2 not supported by the targets · 3 permission denied · 4 nothing found · 64 usage. */
export function exitCodeOf(code: ErrorCode): number {
  switch (code) {
    case "usage":
    case "invalid":
      return 64;
    case "unsupported":
      return 2;
    case "unauthenticated":
    case "not-permitted":
      return 3;
    case "not-found":
      return 4;
    default:
      return 1;
  }
}

const httpStatuses: Record<ErrorCode, number> = {
  usage: 400,
  invalid: 400,
  "not-found": 404,
  "already-exists": 409,
  unauthenticated: 401,
  "not-permitted": 403,
  unsupported: 501,
  unavailable: 503,
  timeout: 504,
  cancelled: 499,
  exhausted: 429,
  corrupt: 500,
  internal: 500,
};

export function httpStatusOf(code: ErrorCode): number {
  return httpStatuses[code];
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(httpStatuses, value);
}

/** Explains failed system calls on files: the reason, and the fix. */
const fileReasons: Record<string, { code: ErrorCode; text: string }> = {
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
  const known = fileReasons[errnoOf(error) ?? ""];
  const text = known?.text ?? (error instanceof Error ? error.message : String(error));
  return new CoralError({ code: known?.code ?? "internal", message: `Cannot ${verb} "${path}": ${text}`, cause: error, details: { path } });
}

/** Such as `ENOENT`; undefined for anything but a failed system call. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
