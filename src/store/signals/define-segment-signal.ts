/**
 * A segment signal is a stream with too many rows for a table: spans, logs. An agent stores it as immutable, numbered Parquet files
 * ("segments"), and a colony pulls whole files. This declaration determines the file's schema, the validation of agents' files, retention
 * and the SQL views.
 */

import type { SignalRetention } from "./define-signal.ts";

/** Column types: storage, and what SQL shows. */
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
  /** 16 raw bytes such as a trace id; stored as UUID, lower-case hex in the published view. Batch column `fixed`. */
  | "id16"
  /** 8 raw bytes such as a span id; stored as UBIGINT, lower-case hex in the published view. Batch column `fixed`. */
  | "id8";

/** `text` is required, `text?` is nullable. */
export type SegmentColumnSpec = SegmentColumnType | `${SegmentColumnType}?`;
export type SegmentColumns = Readonly<Record<string, SegmentColumnSpec>>;

export interface SegmentSignalOptions<C extends SegmentColumns> {
  /** snake_case. Directory of its files, and name of the view at agent and colony. */
  name: string;
  /** One line for people and language models: what a row is. */
  description: string;
  /**
   * Raise it when columns are added. A column's type never changes; files of older versions lack new columns, which read as null. Default
   * 1.
   */
  version?: number;
  /** In file order. Must include `time: "time"` and `service: "text"`: rows are sorted by service and pruned by both. */
  columns: C & { time: "time"; service: "text" };
  /** An `id16` column for look-ups; each file gets a Bloom filter over it. */
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
    if (reserved.has(name)) fail(`column "${name}" is reserved by the store`);
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
