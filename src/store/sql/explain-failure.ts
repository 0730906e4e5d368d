/** Explains a failed statement to its author: what happened, and how to fix it. */

import { CoralError } from "../../base/errors.ts";
import { formatBytes, formatDurationMs } from "../../base/units.ts";
import { failureOf } from "../engine/duckdb-errors.ts";
import type { SqlEnd } from "./guard/watch-sql.ts";

const messageMaxLength = 1_000;

/** Errors of the store, not of the statement, are returned unchanged. `ended`: why the statement was interrupted, if it was. */
export function explainFailure(error: unknown, ended: SqlEnd | undefined, timeoutMs: number): unknown {
  if (error instanceof CoralError) return error;
  if (ended !== undefined) return endedError(ended, timeoutMs, error);
  const failure = failureOf(error);
  if (failure === "interrupted") return endedError("cancelled", timeoutMs, error);
  if (failure === "out-of-memory") return endedError("memory", timeoutMs, error);
  if (failure !== "statement") return error;
  const text = oneLine(error instanceof Error ? error.message : String(error)).slice(0, messageMaxLength);
  return new CoralError({ code: "invalid", message: `Cannot run SQL: ${text}`, cause: error });
}

export function endedError(ended: SqlEnd, timeoutMs: number, cause?: unknown): CoralError {
  const failed = "Cannot finish the SQL statement";
  switch (ended) {
    case "timeout": {
      const limit = formatDurationMs(timeoutMs);
      const message = `${failed}: it took longer than ${limit}; narrow it with WHERE time > …, or raise the time limit`;
      return new CoralError({ code: "timeout", message, cause });
    }
    case "memory": {
      const message = `${failed}: it needs more memory than the store may use; filter earlier, aggregate, or sort and join less`;
      return new CoralError({ code: "exhausted", message, cause });
    }
    case "cancelled":
      return new CoralError({ code: "cancelled", message: `${failed}: it was cancelled`, cause });
  }
}

export function tooLarge(maxBytes: number): CoralError {
  return new CoralError({
    code: "exhausted",
    message: `Cannot finish the SQL statement: the rows of its views take more than ${formatBytes(maxBytes)}; narrow it with WHERE time > … next to each view, or select fewer columns`,
  });
}

/** The engine's message without its prefix and the excerpt of the statement: `Referenced column "x" not found; Candidate bindings: …`. */
function oneLine(text: string): string {
  const message = (text.split(/\n+LINE \d+:/, 1)[0] ?? text).replace(/^[A-Z][A-Za-z ]* Error: /, "");
  return message
    .split("\n")
    .map((line) => line.trim().replace(/[!.]$/, ""))
    .filter((line) => line !== "")
    .join("; ");
}
