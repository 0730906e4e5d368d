/** Messages between the daemon and its SQL process. */

import type { ErrorCode } from "../../../base/errors.ts";
import type { SqlRequest, SqlResult } from "../../../model/sql.ts";
import type { ApprovedStatement } from "../guard/approve-statement.ts";
import type { PublishedView } from "../published-views.ts";

export interface SqlProcessSettings {
  /** The only directories that its DuckDB can access. */
  dataDirectories: readonly string[];
  memoryLimitBytes: number;
  threads: number;
  /** Where it may spill: a directory of its own. */
  tempDirectory?: string;
}

export interface RunOrder extends SqlRequest {
  kind: "run";
  /** Creates the views that the statement reads, and drops them. */
  before: readonly string[];
  after: readonly string[];
}

export interface ApproveOrder {
  kind: "approve";
  sql: string;
  timeoutMs: number;
  views: readonly PublishedView[];
}

export type SqlOrder = { kind: "open"; settings: SqlProcessSettings } | ApproveOrder | RunOrder;

export interface SqlOrderResults {
  open: null;
  approve: ApprovedStatement;
  run: Pick<SqlResult, "columns" | "rows" | "truncated">;
}

export type SqlAnswer =
  | { ok: true; result: SqlOrderResults[keyof SqlOrderResults] }
  | {
      ok: false;
      error: { code: ErrorCode; message: string; details: Record<string, unknown> };
      /** Neither the statement's fault nor a known cause: typical of a damaged segment. */
      isUnexplained: boolean;
      /** The statement does not end, so the process must be killed. */
      isStuck: boolean;
    };
