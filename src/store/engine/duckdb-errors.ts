import { CoralError, type ErrorCode } from "../../base/errors.ts";

/** Classifies DuckDB failures. Its binding only reports text, which is parsed here and nowhere else. */
export type StoreFailure =
  | "no-space"
  | "locked"
  | "out-of-memory"
  | "interrupted"
  | "invalidated" // the file must be detached and attached again before any use
  | "newer-format"
  | "corrupt"
  | "not-permitted"
  | "statement" // the SQL statement is invalid
  | "other";

/** Checked first: these errors quote text from users and agents, which may look like any other error. */
const statementError =
  /^(Parser|Binder|Catalog|Conversion|Invalid Input|Constraint|Out of Range|Not implemented|Mismatch Type|Permission|Syntax|Dependency) Error/;

const patterns: readonly [StoreFailure, RegExp][] = [
  ["statement", statementError],
  ["no-space", /No space left on device|Disk quota exceeded|File too large/],
  // A problem with a segment is never a reason to move the database aside.
  ["other", /\.parquet\b/],
  ["locked", /Could not set lock on file/],
  ["out-of-memory", /Out of Memory Error|[Ff]ailed to allocate|[Cc]ould not allocate/],
  ["interrupted", /^INTERRUPT Error/],
  ["invalidated", /has been invalidated/],
  ["newer-format", /(newer|different) version of DuckDB|version number \d+, but we can only read/],
  [
    "corrupt",
    /not a valid DuckDB database file|Corrupt database file|Could not read enough bytes|Failure while replaying WAL|Corrupt WAL|^Serialization Error|Failed to deserialize/,
  ],
  ["not-permitted", /Permission denied|Operation not permitted|Read-only file system/],
];

/** True if the file must be detached and attached again before any use, whatever the failure. */
export function isInvalidated(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof CoralError || statementError.test(error.message)) return false;
  return /has been invalidated|Detach and reattach/.test(error.message);
}

/** Writes fail because of the file, its file system or its memory limit, not because of what was written. Accepts errors made by `storeError`. */
export function isFailureOfStore(error: unknown): error is CoralError {
  if (!(error instanceof CoralError)) return false;
  const failure = error.details["failure"];
  return error.code === "corrupt" || (failure !== undefined && failure !== "statement" && failure !== "interrupted");
}

export function failureOf(error: unknown): StoreFailure {
  // Our own errors have a code; their text may quote anything.
  if (error instanceof CoralError) return error.code === "corrupt" ? "corrupt" : "other";
  const text = error instanceof Error ? error.message : String(error);
  return patterns.find(([, pattern]) => pattern.test(text))?.[0] ?? "other";
}

/** Not the statement's fault and not a known cause: typical of a damaged segment. Also accepts errors of `storeError`. */
export function isUnexplained(error: unknown): boolean {
  const failure = error instanceof CoralError ? error.details["failure"] : failureOf(error);
  return failure === "other" || (failure === "statement" && error instanceof Error && error.message.startsWith("Invalid Input Error"));
}

const codes: Record<StoreFailure, ErrorCode> = {
  "no-space": "unavailable",
  locked: "unavailable",
  "out-of-memory": "exhausted",
  interrupted: "cancelled",
  invalidated: "unavailable",
  "newer-format": "unsupported",
  corrupt: "corrupt",
  "not-permitted": "not-permitted",
  statement: "invalid",
  other: "internal",
};

function stateOf(failure: StoreFailure, text: string, file: string): string {
  switch (failure) {
    case "no-space":
      return `no space left on the file system of "${file}"; free some space`;
    case "locked": {
      const holder = /held in (.+?) \(PID (\d+)\)/.exec(text);
      return holder ? `process ${holder[2]} (${holder[1]}) has it open` : "another process has it open";
    }
    case "out-of-memory":
      return "memory limit of the store reached; narrow the query, or raise store.memory in its config";
    case "interrupted":
      return "it was cancelled";
    case "newer-format":
      return "it was written by a newer version; install that version or move the file away";
    case "not-permitted":
      return `no permission to read and write it, or its directory`;
    default:
      return text.split("\n", 1)[0] ?? text;
  }
}

/** `action` is "use" or "open"; the message becomes `Cannot use store "…/agent.duckdb": no space left …`. */
export function storeError(action: string, file: string, error: unknown): CoralError {
  if (error instanceof CoralError) return error;
  const text = error instanceof Error ? error.message : String(error);
  const failure = failureOf(error);
  const message = failure === "statement" ? text : `Cannot ${action} store "${file}": ${stateOf(failure, text, file)}`;
  return new CoralError({ code: codes[failure], message, cause: error, details: { file, failure } });
}
