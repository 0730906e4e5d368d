import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { type AttachTarget, attachFile, attachSql, type FileOptions } from "./attach-file.ts";
import { Connection } from "./connection.ts";
import { AttachedDatabase, type Database } from "./database.ts";
import { storeError } from "./duckdb-errors.ts";
import { type Migration, migrate } from "./migrations.ts";

export interface EngineOptions {
  /** The only directories that SQL can read and write. */
  dataDirectories: readonly string[];
  memoryLimitBytes: number;
  /** Agents use 1, colonies 2. */
  threads: number;
  /** Where large sorts and groups spill, up to four times the memory limit. Default: no spilling; they fail as `exhausted`. */
  tempDirectory?: string;
  log: Logger;
}

export interface AttachOptions extends Partial<FileOptions> {
  /** The schema of unqualified names in queries. Default `main`. */
  readSchema?: string;
  /** Called after each write: with its failure, when that was the store's. */
  onWrite?: (failure: CoralError | undefined) => void;
}

/** The one DuckDB instance of this process. */
export interface Engine extends AsyncDisposable {
  readonly options: EngineOptions;
  /** Opens or creates a file and migrates its schema. `Database.opened` reports damage. */
  attach(name: string, file: string, migrations: readonly Migration[], options?: AttachOptions): Promise<Database>;
  /** A connection without a database file; closed with the engine. */
  connect(): Promise<Connection>;
  /** Closes all databases first. */
  close(): Promise<void>;
}

const mebibyte = 1024 ** 2;
/**
 * Until a checkpoint, committed rows stay uncompressed in memory, up to twice the size of the log, and DuckDB cannot evict them. So the log
 * may grow to this share of the memory limit.
 */
const checkpointShare = 1 / 8;
const spillShare = 4;
const maxCheckpointThresholdBytes = 64 * mebibyte;

/** On the global object, so that a second copy of this module in one process is detected too. */
const engineKey = Symbol.for("coral.store.engine");
const processWide = globalThis as { [engineKey]?: boolean };

/** Fails for a second engine in one process: two DuckDB instances over one file lose data silently. */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  if (processWide[engineKey]) {
    throw new CoralError({
      code: "already-exists",
      message: "Cannot open a store engine: this process already has one; close it first",
    });
  }
  processWide[engineKey] = true;
  try {
    return await DuckDbEngine.open(options);
  } catch (error) {
    processWide[engineKey] = false;
    throw storeError("open", options.dataDirectories.join(", "), error);
  }
}

class DuckDbEngine implements Engine {
  readonly #instance: duckdb.Database;
  readonly #admin: Connection;
  readonly #adminSlot = new Semaphore(1);
  readonly options: EngineOptions;
  readonly #databases = new Map<string, Database>();
  #closed: Promise<void> | undefined;

  private constructor(instance: duckdb.Database, admin: Connection, options: EngineOptions) {
    this.#instance = instance;
    this.#admin = admin;
    this.options = options;
  }

  static async open(options: EngineOptions): Promise<DuckDbEngine> {
    // Removes what a killed process spilled.
    if (options.tempDirectory !== undefined) clearSpilled(options.tempDirectory);
    const config = duckdb.create_config();
    const thresholdBytes = Math.min(maxCheckpointThresholdBytes, Math.floor(options.memoryLimitBytes * checkpointShare));
    const settings: Record<string, string> = {
      threads: String(options.threads),
      memory_limit: `${options.memoryLimitBytes}B`,
      checkpoint_threshold: `${thresholdBytes}B`,
      temp_directory: options.tempDirectory === undefined ? "" : resolve(options.tempDirectory),
      // DuckDB's default is nine tenths of the disk.
      max_temp_directory_size: `${options.memoryLimitBytes * spillShare}B`,
      autoinstall_known_extensions: "false",
      autoload_known_extensions: "false",
      allow_community_extensions: "false",
      allow_unsigned_extensions: "false",
    };
    for (const [name, value] of Object.entries(settings)) duckdb.set_config(config, name, value);
    const instance = await duckdb.open(":memory:", config);
    const admin = await Connection.open(instance);
    const directories = options.dataDirectories.map((directory) => `'${resolve(directory).replaceAll("'", "''")}'`);
    // Stored times are UTC. Without this, `time > now()` would compare in the host's time zone.
    await admin.run("SET GLOBAL TimeZone = 'UTC'");
    await admin.run(`SET allowed_directories = [${directories.join(", ")}]`);
    await admin.run("SET enable_external_access = false");
    await admin.run("SET lock_configuration = true");
    return new DuckDbEngine(instance, admin, options);
  }

  async attach(name: string, file: string, migrations: readonly Migration[], options: AttachOptions = {}): Promise<Database> {
    if (this.#closed) throw new CoralError({ code: "unavailable", message: `Cannot open store "${file}": the engine is closed` });
    const target: AttachTarget = {
      name,
      file: resolve(file),
      blockBytes: options.blockBytes ?? 256 * 1024,
      rowGroupRows: options.rowGroupRows ?? 122_880,
      keepCheckpoint: options.keepCheckpoint ?? false,
      ...(options.discard === undefined ? {} : { discard: options.discard }),
    };
    const opened = await this.#adminSlot.run(() => attachFile(this.#admin, target, this.options.log));
    const database = new AttachedDatabase({
      name,
      file: target.file,
      opened,
      readSchema: options.readSchema ?? "main",
      ...(options.onWrite ? { onWrite: options.onWrite } : {}),
      host: {
        log: this.options.log,
        connect: () => Connection.open(this.#instance),
        attach: () => this.#administer(attachSql(target)),
        detach: () => this.#administer(`DETACH "${name}"`),
        closed: () => this.#databases.delete(name),
      },
    });
    this.#databases.set(name, database);
    try {
      const version = await migrate(database, migrations);
      // A file that lost its log before the first checkpoint is valid and empty: what lies beside it has to be found again, as with a new one.
      if (version === 0 && opened.how === "existing") database.opened = { how: "created" };
    } catch (error) {
      await database.close();
      throw error;
    }
    return database;
  }

  connect(): Promise<Connection> {
    return Connection.open(this.#instance);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #administer(sql: string): Promise<void> {
    await this.#adminSlot.run(() => this.#admin.run(sql));
  }

  async #close(): Promise<void> {
    try {
      await Promise.all([...this.#databases.values()].map((database) => database.close()));
    } finally {
      this.#admin.close();
      duckdb.close_sync(this.#instance);
      processWide[engineKey] = false;
    }
  }
}

function clearSpilled(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(directory)) if (name.startsWith("duckdb_temp_")) rmSync(join(directory, name), { force: true });
}
