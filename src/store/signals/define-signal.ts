/**
 * A signal is an append-only stream of rows at an agent, which the colony pulls. A new signal needs only this declaration: tables at both
 * ends, typed rows, wire format, retention, roll-ups and published SQL views follow from it.
 */

/** Column types: storage, and the JavaScript value in a row. */
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

/** `text` is required, `text?` is nullable. */
export type ColumnSpec = ColumnType | `${ColumnType}?`;
export type Columns = Record<string, ColumnSpec>;

type ValueOf<S extends ColumnSpec> = S extends `${infer T extends ColumnType}?`
  ? ColumnTypes[T] | null
  : S extends ColumnType
    ? ColumnTypes[S]
    : never;

/** A row from a collector. The store adds `seq`. */
export type RowOf<C extends Columns> = { [K in keyof C]: ValueOf<C[K]> } & SampleTime;

export interface SampleTime {
  /** Wall time of the observation, microseconds since 1970. Column `time` in SQL, where AT is a keyword. */
  at: number;
  /** The same instant on the agent's monotonic clock, milliseconds. Orders rows when the wall clock jumps. */
  mono_ms: number;
}

/** How a roll-up merges a column. All of these merge again without loss. */
export type RollupMeasure = "sum" | "min" | "max" | "avg" | "last";

export interface Rollup<C extends Columns> {
  /** Group keys, kept unchanged: one row per agent, bucket and key. */
  keys: (keyof C & string)[];
  /** A column may have several measures; the view names them `<column>_<measure>`. `avg` is stored as sum and count. */
  measures: { [K in keyof C & string]?: RollupMeasure[] };
  /**
   * Histograms by the name before `_lo` (int, first bucket) and `_counts` (uints), merged bucket by bucket without loss. The views have the
   * same two columns; `_counts` has 64 bits there.
   */
  histograms?: HistogramName<C>[];
}

/** `duration` for columns `duration_lo` and `duration_counts`. */
export type HistogramName<C extends Columns> = string extends keyof C ? string : CountsName<keyof C>;
type CountsName<K> = K extends `${infer N}_counts` ? N : never;

export interface SignalRetention {
  /** Older rows are removed. */
  maxAgeMs: number;
  /** This signal's share of the size limit before its oldest rows are evicted, relative to the weights of other signals. */
  weight: number;
}

export interface SignalOptions<C extends Columns> {
  /** snake_case. Name of the agent's table and of the colony's view. */
  name: string;
  /** One line for people and language models: what a row is. */
  description: string;
  columns: C;
  retention: { agent: SignalRetention; colony: SignalRetention };
  /** Roll-ups at the colony, in views `<name>_1m` and `<name>_10m`. Absent: none. */
  rollup?: Rollup<C>;
  /** Metric points: their roll-ups are points again, see tables/thin-points.ts. Instead of `rollup`. */
  isThinned?: boolean;
  /**
   * Rows are hash-chained. They are pruned only after the owner has recorded how far, and a gap is reported instead of treated as damage.
   */
  isChained?: boolean;
  /** Not published as a view. */
  isPrivate?: boolean;
}

export interface Signal<C extends Columns = Columns> extends SignalOptions<C> {
  /** Signals in tables; see defineSegmentSignal() for streams with too many rows. */
  readonly kind: "table";
}

/** Columns that the stores add at agent or colony. */
const reserved = new Set(
  ["seq", "at", "time", "mono_ms", "agent_id", "epoch", "source", "ingest", "stored_at"].concat("bucket", "sample_count", "last_seq"),
);

export function defineSignal<const C extends Columns>(options: SignalOptions<C>): Signal<C> {
  for (const name of [options.name, ...Object.keys(options.columns)]) {
    if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`Cannot define signal "${options.name}": "${name}" is not snake_case`);
    if (reserved.has(name)) throw new Error(`Cannot define signal "${options.name}": column "${name}" is reserved by the store`);
  }
  return { ...options, kind: "table" };
}

export function columnTypeOf(spec: ColumnSpec): { type: ColumnType; nullable: boolean } {
  const nullable = spec.endsWith("?");
  return { type: (nullable ? spec.slice(0, -1) : spec) as ColumnType, nullable };
}
