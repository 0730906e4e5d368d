import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { RowBatch } from "./column-codec.ts";
import type { Opened } from "./database.ts";
import type { Columns, RowOf, Signal } from "./define-signal.ts";
import type { Engine } from "./engine.ts";
import type { Row, SqlParameters } from "./sql-values.ts";

export interface AgentStoreOptions {
  file: string;
  signals: readonly Signal[];
  /** What the file may hold before the oldest rows go. */
  maxBytes: number;
  clock: Clock;
  log: Logger;
  /** Rows that may wait for a commit; more are refused and counted as lost. Default 20,000. */
  maxQueuedRows?: number;
}

export interface SeqRange {
  firstSeq: number;
  lastSeq: number;
}

export interface SignalHead {
  /** The lowest sequence still stored; nextSeq when none is. */
  oldestSeq: number;
  /** What the next row will get. The first row ever is 1. */
  nextSeq: number;
}

/** What one signal has after a cursor; mirrors the wire message of the same name. */
export interface SignalSlice extends SignalHead {
  signal: string;
  /** Absent when there is nothing new. */
  batch?: RowBatch;
}

export interface LossCount {
  signal: string;
  reason: "disk-full" | "queue-full" | (string & {});
  /** Since the store was created. */
  rows: number;
}

export interface ReadLimits {
  /** Bytes of batch data; one row is always given. */
  maxBytes: number;
  maxRows: number;
}

export interface PruneResult {
  prunedRows: Record<string, number>;
  usedBytes: number;
}

export interface StoreStats {
  fileBytes: number;
  usedBytes: number;
  walBytes: number;
  /** By signal. */
  rows: Record<string, number>;
}

/** The last hours of one agent's signals. */
export interface AgentStore extends AsyncDisposable {
  /** UUID made with the file; sequences are comparable within one epoch only. */
  readonly epoch: string;
  readonly opened: Opened;
  /** Resolves after the rows are durable. Rejects with `exhausted` when the queue is full, `unavailable` when the disk is; both are counted. */
  append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): Promise<SeqRange>;
  /** By signal name; from memory. */
  heads(): ReadonlyMap<string, SignalHead>;
  readAfter(signal: string, afterSeq: number, limits: ReadLimits): Promise<SignalSlice>;
  losses(): LossCount[];
  /** Retention by age and by bytes, oldest sequences first. The owner calls it about once a minute. */
  prune(): Promise<PruneResult>;
  stats(): Promise<StoreStats>;
  /** Tables are named after their signals: `SELECT * FROM host ORDER BY seq DESC LIMIT 1`. */
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  /** Commits what waits, then closes. */
  close(): Promise<void>;
}

export function openAgentStore(_engine: Engine, _options: AgentStoreOptions): Promise<AgentStore> {
  return Promise.reject(new CoralError({ code: "unsupported", message: "Cannot open the agent's store: not built yet" }));
}
