import { statSync, writeFileSync } from "node:fs";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import type { Connection } from "./connection.ts";
import { failureOf, isFailureOfStore, isInvalidated, storeError } from "./duckdb-errors.ts";
import type { Row, SqlParameters } from "./sql-values.ts";

/**
 * How a file was opened. `recovered`: it was damaged and is kept at `movedTo`. An empty file replaced it or, with `keptCheckpoint`, only
 * the log of its last commits was lost.
 */
export type Opened =
  | { how: "created" }
  | { how: "existing" }
  | { how: "recovered"; movedTo: string; reason: string; keptCheckpoint: boolean };

/** Runs statements of one transaction, inside `Database.write`. */
export interface Transaction {
  query(sql: string, parameters?: SqlParameters): Promise<Row[]>;
  /** The number of rows changed. */
  run(sql: string, parameters?: SqlParameters): Promise<number>;
  /** For bulk appends, used only inside this room. */
  readonly connection: Connection;
}

export interface DatabaseSize {
  /** Size of the file on disk, without the log. */
  fileBytes: number;
  /** The part of it that holds data; the rest is reused before the file grows. */
  usedBytes: number;
  /** Size of the log: committed rows that are not in the file yet. */
  walBytes: number;
}

/** One attached file: a single writer, and readers that never wait for it. */
export interface Database extends AsyncDisposable {
  readonly name: string;
  readonly file: string;
  readonly opened: Opened;
  /** Transactions committed since it was opened: while it stays the same, answers change with time only. */
  readonly commits: number;
  /** Set once a stored block proved damaged in use: the file is moved aside at the next open. */
  readonly damage: string | undefined;
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  /** For very many rows: passes each in the same object, which must not be kept. */
  visit(sql: string, parameters: SqlParameters | undefined, visit: (row: Row) => void): Promise<void>;
  /**
   * Commits when `work` resolves, rolls back when it rejects. Transactions run one at a time, in call order; `committed` runs before the
   * next one starts.
   */
  write<T>(work: (transaction: Transaction) => Promise<T>, committed?: (result: T) => void): Promise<T>;
  /** Lends a read connection whose default schema is this file's. Only for other files of this room. Do not nest: there are only two. */
  withConnection<T>(work: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T>;
  /** Writes the log into the file, which compresses rows and frees the space of deleted ones. */
  checkpoint(): Promise<void>;
  size(): Promise<DatabaseSize>;
  close(): Promise<void>;
}

/** What a database needs from its engine. */
export interface DatabaseHost {
  connect(): Promise<Connection>;
  attach(): Promise<void>;
  detach(): Promise<void>;
  closed(): void;
  log: Logger;
}

export interface AttachedDatabaseOptions {
  name: string;
  file: string;
  opened: Opened;
  /** The schema of unqualified names in `query` and `withConnection`; writers use `main`. */
  readSchema: string;
  /** Called after each write: with its failure, when that was the store's. */
  onWrite?: (failure: CoralError | undefined) => void;
  host: DatabaseHost;
}

/** Marker file: a block failed its checksum while in use, so the store is moved aside at the next open. */
export const corruptMark = (file: string): string => `${file}.corrupt`;

/** Each running statement holds one of libuv's four threads; two stay free for the writer and the file system. */
const maxReaders = 2;
const maxWaitingReads = 500;
const maxWaitingWrites = 1_000;
const interruptEveryMs = 20;

export class AttachedDatabase implements Database {
  readonly name: string;
  readonly file: string;
  opened: Opened;
  readonly #host: DatabaseHost;
  readonly #readSchema: string;
  readonly #onWrite: (failure: CoralError | undefined) => void;
  readonly #readSlots = new Semaphore(maxReaders);
  readonly #writeSlot = new Semaphore(1);
  readonly #active = new Set<Promise<unknown>>();
  #idleReaders: Connection[] = [];
  readonly #busyReaders = new Set<Connection>();
  #writer: Connection | undefined;
  /** Set when DuckDB rejects the file until it is re-attached, such as after a checkpoint on a full disk. */
  #invalidated = false;
  #reattaching: Promise<void> | undefined;
  #damage: string | undefined;
  #commits = 0;
  #closed: Promise<void> | undefined;

  constructor(options: AttachedDatabaseOptions) {
    this.name = options.name;
    this.file = options.file;
    this.opened = options.opened;
    this.#readSchema = options.readSchema;
    this.#onWrite = options.onWrite ?? (() => undefined);
    this.#host = options.host;
  }

  get commits(): number {
    return this.#commits;
  }

  get damage(): string | undefined {
    return this.#damage;
  }

  async query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]> {
    const attempt = (): Promise<Row[]> => this.withConnection((connection) => connection.query(sql, parameters), signal);
    try {
      return await attempt();
    } catch (error) {
      // A read can be repeated: the file is re-attached before the second attempt.
      if (this.#invalidated) return await attempt();
      throw error;
    }
  }

  async visit(sql: string, parameters: SqlParameters | undefined, visit: (row: Row) => void): Promise<void> {
    await this.withConnection((connection) => connection.visit(sql, parameters, visit));
  }

  async withConnection<T>(work: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#readSlots.waiting >= maxWaitingReads) throw this.#tooBusy("queries", maxWaitingReads);
    return await this.#readSlots.run(async () => {
      await this.#usable();
      return await this.#track(this.#read(work, signal));
    });
  }

  async write<T>(work: (transaction: Transaction) => Promise<T>, committed?: (result: T) => void): Promise<T> {
    if (this.#writeSlot.waiting >= maxWaitingWrites) throw this.#tooBusy("writes", maxWaitingWrites);
    return await this.#writeSlot.run(async () => {
      const result = await this.#reporting(async () => {
        await this.#usable();
        return await this.#track(this.#transact(work));
      });
      this.#commits++;
      committed?.(result);
      return result;
    });
  }

  async #reporting<T>(write: () => Promise<T>): Promise<T> {
    try {
      const result = await write();
      this.#onWrite(undefined);
      return result;
    } catch (error) {
      if (isFailureOfStore(error)) this.#onWrite(error);
      throw error;
    }
  }

  async checkpoint(): Promise<void> {
    await this.#writeSlot.run(async () => {
      await this.#usable();
      await this.#track(
        this.#checkpoint().catch((error: unknown) => {
          // Another transaction is still open, such as one whose connection was closed midway. The next checkpoint includes both.
          const { cause } = CoralError.from(error);
          if (!(cause instanceof Error) || !cause.message.includes("other write transactions active")) throw error;
        }),
      );
    });
  }

  async size(): Promise<DatabaseSize> {
    const [row] = await this.query("SELECT block_size * used_blocks AS used FROM pragma_database_size() WHERE database_name = ?", [
      this.name,
    ]);
    return { fileBytes: fileBytes(this.file), usedBytes: Number(row?.["used"] ?? 0), walBytes: fileBytes(`${this.file}.wal`) };
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #read<T>(work: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    let connection: Connection | undefined;
    const onAbort = (): void => connection?.interrupt();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      connection = this.#idleReaders.pop() ?? (await this.#connect(this.#readSchema));
      signal?.throwIfAborted();
      this.#busyReaders.add(connection);
      return await work(connection);
    } catch (error) {
      throw this.#failed(error);
    } finally {
      signal?.removeEventListener("abort", onAbort);
      if (connection) {
        this.#busyReaders.delete(connection);
        this.#idleReaders.push(connection);
      }
    }
  }

  async #transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    try {
      const connection = (this.#writer ??= await this.#connect("main"));
      await connection.run("BEGIN TRANSACTION");
      const result = await this.#rollingBack(connection, () =>
        work({
          connection,
          query: (sql, parameters) => connection.query(sql, parameters),
          run: (sql, parameters) => connection.run(sql, parameters),
        }),
      );
      await this.#rollingBack(connection, () => this.#commit(connection));
      return result;
    } catch (error) {
      throw this.#failed(error);
    }
  }

  async #commit(connection: Connection): Promise<void> {
    try {
      await connection.run("COMMIT");
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes("COMMIT succeeded and is durable")) throw error;
      // The rows are durable in the log. Only moving them into the file failed, which is retried after the next attach.
      this.#failed(error);
    }
  }

  async #rollingBack<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // A failed COMMIT has already rolled back, so this may fail too. Report the first error.
      await connection.run("ROLLBACK").catch(() => undefined);
      // Its appenders may still hold rows of the failed transaction, which must not reach the next one.
      connection.close();
      this.#writer = undefined;
      throw error;
    }
  }

  async #checkpoint(): Promise<void> {
    try {
      const connection = (this.#writer ??= await this.#connect("main"));
      await connection.run(`CHECKPOINT "${this.name}"`);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  async #connect(schema: string): Promise<Connection> {
    const connection = await this.#host.connect();
    await connection.run(`USE "${this.name}"."${schema}"`);
    return connection;
  }

  #failed(error: unknown): CoralError {
    if (isInvalidated(error)) this.#invalidated = true;
    const failure = storeError("use", this.file, error);
    if (failureOf(error) === "corrupt") this.#markCorrupt(failure);
    return failure;
  }

  #markCorrupt(failure: CoralError): void {
    if (this.#damage !== undefined) return;
    this.#damage = failure.message;
    this.#host.log.error("a stored block is damaged; the file will be moved aside at the next start", { file: this.file, error: failure });
    try {
      writeFileSync(corruptMark(this.file), failure.message, { mode: 0o600 });
    } catch (error) {
      this.#host.log.warn("cannot write the damage marker beside the file", { file: this.file, error });
    }
  }

  async #usable(): Promise<void> {
    if (this.#closed) throw new CoralError({ code: "unavailable", message: `Cannot use store "${this.file}": it is closed` });
    while (this.#invalidated) {
      this.#reattaching ??= this.#reattach().finally(() => {
        this.#reattaching = undefined;
      });
      await this.#reattaching;
    }
  }

  async #reattach(): Promise<void> {
    await Promise.allSettled(this.#active);
    this.#disconnect();
    try {
      await this.#host.detach();
    } catch (error) {
      // An earlier attempt may already have detached the file; the attach shows whether it is usable.
      this.#host.log.debug("cannot detach before re-attaching", { file: this.file, error });
    }
    try {
      await this.#host.attach();
    } catch (error) {
      throw storeError("attach again", this.file, error);
    }
    this.#invalidated = false;
    this.#host.log.warn("re-attached the store: DuckDB had invalidated it", { file: this.file });
  }

  async #track<T>(operation: Promise<T>): Promise<T> {
    this.#active.add(operation);
    try {
      return await operation;
    } finally {
      this.#active.delete(operation);
    }
  }

  #disconnect(): void {
    for (const connection of this.#idleReaders) connection.close();
    this.#idleReaders = [];
    this.#writer?.close();
    this.#writer = undefined;
  }

  #tooBusy(what: string, bound: number): CoralError {
    return new CoralError({ code: "exhausted", message: `Cannot use store "${this.file}": ${bound} ${what} are already queued` });
  }

  async #close(): Promise<void> {
    // A long query must not delay shutdown. Repeated, because an interrupt between two statements has no effect.
    const interrupting = setInterval(() => {
      for (const connection of this.#busyReaders) connection.interrupt();
    }, interruptEveryMs);
    await Promise.allSettled(this.#active);
    clearInterval(interrupting);
    // Without this the next start would replay the log; a full disk must not prevent closing.
    if (!this.#invalidated) {
      await this.#checkpoint().catch((error: unknown) => {
        this.#host.log.warn("cannot checkpoint before closing the store; its log is replayed at the next start", {
          file: this.file,
          error,
        });
      });
    }
    this.#disconnect();
    try {
      await this.#host.detach();
    } finally {
      this.#host.closed();
    }
  }
}

function fileBytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
