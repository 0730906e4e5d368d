/**
 * A signal is an append-only stream of rows at an agent, pulled into the colony. This declaration is all that a new one needs:
 * from it come the tables at both ends, the typed rows, the wire format, retention, roll-ups and the published SQL views.
 */

/** How a column is stored, and what a row holds in JavaScript. */
export interface ColumnTypes {
  /** VARCHAR */
  text: string;
  /** BIGINT; safe integers only */
  int: number;
  /** DOUBLE */
  float: number;
  /** BOOLEAN */
  bool: boolean;
  /** TIMESTAMP in UTC; microseconds since 1970 */
  time: number;
  /** UINTEGER[]; histogram counts */
  uints: number[];
}
export type ColumnType = keyof ColumnTypes;

/** `text` is required, `text?` may be null. */
export type ColumnSpec = ColumnType | `${ColumnType}?`;
export type Columns = Record<string, ColumnSpec>;

type ValueOf<S extends ColumnSpec> = S extends `${infer T extends ColumnType}?`
  ? ColumnTypes[T] | null
  : S extends ColumnType
    ? ColumnTypes[S]
    : never;

/** What a collector hands to the store. The store adds `seq`. */
export type RowOf<C extends Columns> = { [K in keyof C]: ValueOf<C[K]> } & SampleTime;

export interface SampleTime {
  /** Wall time of the observation, microseconds since 1970. Column `time` in SQL, where AT is a keyword. */
  at: number;
  /** The same instant on the agent's monotonic clock, milliseconds; orders rows when the wall clock jumps. */
  mono_ms: number;
}

/** How a column is merged when rows of one bucket and key become one: all of these merge again without loss. */
export type RollupMeasure = "sum" | "min" | "max" | "avg" | "last";

export interface Rollup<C extends Columns> {
  /** Columns that stay as they are; one row per agent, bucket and key. */
  keys: (keyof C & string)[];
  /** A column may be kept in several ways; the view names them `<column>_<measure>`. `avg` is stored as sum and count. */
  measures: { [K in keyof C & string]?: RollupMeasure[] };
  /**
   * Histograms by the name before `_lo` (int, the first bucket) and `_counts` (uints): merged bucket by bucket, without loss. The views have
   * the same two columns; `_counts` are 64 bits wide there.
   */
  histograms?: HistogramName<C>[];
}

/** `duration` for columns `duration_lo` and `duration_counts`. */
export type HistogramName<C extends Columns> = string extends keyof C ? string : CountsName<keyof C>;
type CountsName<K> = K extends `${infer N}_counts` ? N : never;

export interface SignalRetention {
  /** Rows older than this go. */
  maxAgeMs: number;
  /** Share of the store's byte budget that this signal may take before its oldest rows go; weights, not percentages. */
  weight: number;
}

export interface SignalOptions<C extends Columns> {
  /** snake_case; the table's name at the agent, the view's name at the colony. */
  name: string;
  /** One line for people and language models: what a row is. */
  description: string;
  columns: C;
  retention: { agent: SignalRetention; colony: SignalRetention };
  /** Coarser copies at the colony, in views `<name>_1m` and `<name>_10m`. Absent: none. */
  rollup?: Rollup<C>;
  /** Points of metrics: coarser copies are such points again, see metrics/thin-points.ts. Instead of `rollup`. */
  isThinned?: boolean;
  /** Rows hold hashes of those before: they are pruned only after their owner has recorded how far, and a hole is reported, not treated as damage. */
  isChained?: boolean;
  /** Not among the views that people's SQL may read. */
  isPrivate?: boolean;
}

export interface Signal<C extends Columns = Columns> extends SignalOptions<C> {
  /** Table rows today; segments (Parquet files for spans and logs) join behind the same interface. */
  readonly kind: "table";
}

/** Columns that the stores add, at either end. */
const reserved = new Set(
  ["seq", "at", "time", "mono_ms", "agent_id", "epoch", "source", "ingest", "stored_at"].concat("bucket", "sample_count", "last_seq"),
);

export function defineSignal<const C extends Columns>(options: SignalOptions<C>): Signal<C> {
  for (const name of [options.name, ...Object.keys(options.columns)]) {
    if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`Cannot define signal "${options.name}": "${name}" is not snake_case`);
    if (reserved.has(name)) throw new Error(`Cannot define signal "${options.name}": column "${name}" is added by the store`);
  }
  return { ...options, kind: "table" };
}

export function columnTypeOf(spec: ColumnSpec): { type: ColumnType; nullable: boolean } {
  const nullable = spec.endsWith("?");
  return { type: (nullable ? spec.slice(0, -1) : spec) as ColumnType, nullable };
}
