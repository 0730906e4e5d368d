/** How queries read segments: only the files that may contain a match. */

import type { ServiceFilter } from "../../model/services.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";

/** Selects files. Rows are not filtered unless `isExact`, so the query must filter again. */
export interface SegmentRange {
  /** Microseconds since 1970, both inclusive. Default: unbounded. */
  fromUs?: number;
  untilUs?: number;
  /** Excludes rows outside the time range. Files entirely inside the range are read without checking times. */
  isExact?: boolean;
  /** Files that may contain any of these services. */
  service?: ServiceFilter;
  /** The look-up column's value in hex, such as a trace id. With several, files that may contain any of them. */
  lookup?: string | readonly string[];
  /** At the colony: only this agent's files. */
  agentId?: string;
}

export interface SegmentSource {
  /**
   * A FROM clause item, parenthesised. Columns as declared, ids as stored: `trace_id = '<hex>'::UUID`, see `idSql` and `hexSql`. At the
   * colony also `agent_id` and `epoch`. Without files it is an empty relation of the same types. Valid for a minute; after that, files may
   * be gone.
   */
  sql: string;
  files: number;
  /** Rows in the selected files: an upper bound of the result. */
  rows: number;
}

export interface SegmentReader {
  segmentSource(signal: SegmentSignal, range?: SegmentRange): Promise<SegmentSource>;
}

/** A hex parameter or literal as the stored type of an `id16` or `id8` column: `trace_id = ${idSql("id16", "?")}`. */
export function idSql(type: "id16" | "id8", hex: string): string {
  return type === "id16" ? `CAST(${hex} AS UUID)` : `CAST('0x' || ${hex} AS UBIGINT)`;
}

/** A stored id as lower-case hex; null stays null. */
export function hexSql(type: "id16" | "id8", column: string): string {
  return type === "id16" ? `replace(CAST(${column} AS VARCHAR), '-', '')` : `printf('%016x', ${column})`;
}
