/** Read-only SQL over the published views. */

export interface SqlRequest {
  sql: string;
  maxRows: number;
  /** Of the rows as JSON, approximately. */
  maxBytes: number;
  timeoutMs: number;
}

/** Values are JSON: timestamps ISO 8601 UTC, integers past 2^53 text, blobs hex text. */
export interface SqlResult {
  columns: { name: string; type: string }[];
  /** One array per row, in the order of `columns`. */
  rows: unknown[][];
  /** The row or byte limit cut the result. */
  truncated: boolean;
  elapsedMs: number;
  /** The published views that the statement reads. */
  views: string[];
}
