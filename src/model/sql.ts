/** Read-only SQL over the published views. */

export interface SqlRequest {
  sql: string;
  maxRows: number;
  /** Limit on the size of the rows as JSON, approximate. */
  maxBytes: number;
  timeoutMs: number;
}

/** Values are JSON: timestamps as ISO 8601 in UTC, integers beyond 2^53 as text, blobs as hex text. */
export interface SqlResult {
  columns: { name: string; type: string }[];
  /** One array per row, in the order of `columns`. */
  rows: unknown[][];
  /** True if the row or byte limit cut the result. */
  truncated: boolean;
  elapsedMs: number;
  /** The published views that the statement reads. */
  views: string[];
}
