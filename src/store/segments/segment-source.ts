/** How questions reach the rows of segments: only the files that can hold an answer are read. */

import type { ServiceFilter } from "../../model/services.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";

/** Narrows the files, and not the rows unless `isExact`: the query filters again. */
export interface SegmentRange {
  /** Microseconds since 1970, both inclusive. Default: everything. */
  fromUs?: number;
  untilUs?: number;
  /** Rows of another time are excluded: the times of files that lie within it whole are not even read. */
  isExact?: boolean;
  /** Files that may hold any of these. */
  service?: ServiceFilter;
  /** The look-up column's value in hex, such as a trace id; several: files that may hold any of them. */
  lookup?: string | readonly string[];
  /** At the colony: only this agent's files. */
  agentId?: string;
}

export interface SegmentSource {
  /**
   * For FROM, in parentheses already. Columns as declared, ids as stored: `trace_id = '<hex>'::UUID`, see `idSql` and `hexSql`. At the colony also
   * `agent_id` and `epoch`. Without files it is an empty relation of the same types. Good for a minute: then files may be gone.
   */
  sql: string;
  files: number;
  /** In those files; an upper bound of the answer. */
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
