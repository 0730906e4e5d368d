import type { DuckDBConnection } from "@duckdb/node-api";

/** A value as queries return it: bigint only where a number would lose digits, times as microseconds since 1970. */
export type SqlValue = string | number | bigint | boolean | null | Uint8Array | SqlValue[] | { [key: string]: SqlValue };
export type Row = Record<string, SqlValue>;
/** What a `?` or `$name` may be bound to. Times are bound as `make_timestamp(?)` of microseconds. */
export type SqlParameter = string | number | bigint | boolean | null;
export type SqlParameters = readonly SqlParameter[] | Readonly<Record<string, SqlParameter>>;

/** How a file came to be open. `recovered`: it was damaged, is kept at `movedTo`, and an empty one has taken its place. */
export type Opened = { how: "created" } | { how: "existing" } | { how: "recovered"; movedTo: string; reason: string };

/** Numbered from 1, forward only; a released one is never edited. */
export interface Migration {
  version: number;
  /** Statements separated by semicolons; unqualified names mean the attached file. */
  sql: string;
}

/** Inside `Database.write`: statements of one transaction. */
export interface Transaction {
  query(sql: string, parameters?: SqlParameters): Promise<Row[]>;
  /** Rows changed. */
  run(sql: string, parameters?: SqlParameters): Promise<number>;
}

export interface DatabaseSize {
  /** What the file takes on disk, without the write-ahead log. */
  fileBytes: number;
  /** What of it holds data; the rest is reused before the file grows. */
  usedBytes: number;
  walBytes: number;
}

/** One attached file: a single writer, and readers that never wait for it. */
export interface Database extends AsyncDisposable {
  readonly name: string;
  readonly file: string;
  readonly opened: Opened;
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  /** Commits when `work` resolves, rolls back when it rejects. One at a time, in order of call. */
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Lends a read connection whose default database is this file; for other files of this room only. */
  withConnection<T>(work: (connection: DuckDBConnection) => Promise<T>, signal?: AbortSignal): Promise<T>;
  /** Writes the log into the file, so that freed space can be used again. */
  checkpoint(): Promise<void>;
  size(): Promise<DatabaseSize>;
  close(): Promise<void>;
}
