/** What the daemon and its SQL process send each other. */

import type { ErrorCode } from "../../../base/errors.ts";
import type { SqlRequest, SqlResult } from "../../../model/sql.ts";
import type { ApprovedStatement } from "../guard/approve-statement.ts";
import type { PublishedView } from "../published-views.ts";

export interface SqlProcessSettings {
  /** The only folders that its DuckDB can reach. */
  dataDirectories: readonly string[];
  memoryLimitBytes: number;
  threads: number;
  /** Where it may spill: its own folder. */
  tempDirectory?: string;
}

export interface RunOrder extends SqlRequest {
  kind: "run";
  /** Makes the views that the statement reads, and removes them. */
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
      /** The failure is neither the statement's nor a known one: a damaged segment makes such failures. */
      isUnexplained: boolean;
      /** The statement does not end, and the process must be killed. */
      isStuck: boolean;
    };
