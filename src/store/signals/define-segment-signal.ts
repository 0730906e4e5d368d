/**
 * A segment signal is a stream of rows too many for a table: spans, logs. An agent keeps it as immutable Parquet files ("segments") with rising
 * numbers, a colony pulls whole files. From this declaration come the file's schema, the check of what agents send, retention and the SQL views.
 */

import type { SignalRetention } from "./define-signal.ts";

/** How a column is stored, and what SQL shows of it. */
export type SegmentColumnType =
  /** Microseconds since 1970; TIMESTAMP. Batch column `int64`. */
  | "time"
  /** BIGINT */
  | "int64"
  /** INTEGER */
  | "int32"
  /** DOUBLE */
  | "double"
  /** BOOLEAN */
  | "bool"
  /** VARCHAR. Batch column `dictionary` or `text`. */
  | "text"
  /** 16 raw bytes such as a trace id; UUID inside, lower-case hex in the published view. Batch column `fixed`. */
  | "id16"
  /** 8 raw bytes such as a span id; UBIGINT inside, lower-case hex in the published view. Batch column `fixed`. */
  | "id8";

/** `text` is required, `text?` may be null. */
export type SegmentColumnSpec = SegmentColumnType | `${SegmentColumnType}?`;
export type SegmentColumns = Readonly<Record<string, SegmentColumnSpec>>;

export interface SegmentSignalOptions<C extends SegmentColumns> {
  /** snake_case; folder of its files, and name of the view at either end. */
  name: string;
  /** One line for people and language models: what a row is. */
  description: string;
  /** Raised when columns are added. Columns keep their type for ever; files of older versions lack the new ones, which are null there. Default 1. */
  version?: number;
  /** In the file's order. Must have `time: "time"` and `service: "text"`: rows are sorted by service and pruned by both. */
  columns: C & { time: "time"; service: "text" };
  /** The `id16` column by which rows are looked up; each file gets a small filter over it. */
  lookup?: keyof C & string;
  retention: { agent: SignalRetention; colony: SignalRetention };
}

export interface SegmentSignal<C extends SegmentColumns = SegmentColumns> {
  readonly kind: "segment";
  readonly name: string;
  readonly description: string;
  readonly version: number;
  readonly columns: C;
  readonly lookup?: string;
  readonly retention: { agent: SignalRetention; colony: SignalRetention };
}

/** Columns that the stores add. */
const reserved = new Set(["agent_id", "epoch", "source", "segment", "filename", "file_row_number"]);

export function defineSegmentSignal<const C extends SegmentColumns>(options: SegmentSignalOptions<C>): SegmentSignal<C> {
  const fail = (why: string): never => {
    throw new Error(`Cannot define segment signal "${options.name}": ${why}`);
  };
  for (const name of [options.name, ...Object.keys(options.columns)]) {
    if (!/^[a-z][a-z0-9_]*$/.test(name)) fail(`"${name}" is not snake_case`);
    if (reserved.has(name)) fail(`column "${name}" is added by the store`);
  }
  const columns: SegmentColumns = options.columns;
  if (columns["time"] !== "time" || columns["service"] !== "text") fail(`it needs columns time: "time" and service: "text"`);
  if (options.lookup !== undefined && segmentColumnTypeOf(columns[options.lookup] ?? "text").type !== "id16") {
    fail(`the look-up column "${options.lookup}" is not an id16`);
  }
  return { ...options, kind: "segment", version: options.version ?? 1 };
}

export function segmentColumnTypeOf(spec: SegmentColumnSpec): { type: SegmentColumnType; nullable: boolean } {
  const nullable = spec.endsWith("?");
  return { type: (nullable ? spec.slice(0, -1) : spec) as SegmentColumnType, nullable };
}
