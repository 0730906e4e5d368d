/** A database with published views, and a secret that no query may reveal: in a table, a macro, an inner view and a file. */

import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { CoralError } from "../../base/errors.ts";
import { createLogger } from "../../base/log.ts";
import type { SqlResult } from "../../model/sql.ts";
import type { Database } from "../engine/database.ts";
import { type Engine, openEngine } from "../engine/engine.ts";
import { SqlProcesses } from "./process/sql-processes.ts";
import type { PublishedView } from "./published-views.ts";
import { type ReadOnlySqlOptions, type ReadOnlySqlSource, runReadOnlySql } from "./read-only-sql.ts";

const views: readonly PublishedView[] = [
  {
    name: "host",
    description: "one row per agent every 15 s",
    columns: [
      { name: "agent_id", type: "VARCHAR" },
      { name: "time", type: "TIMESTAMP" },
      { name: "cpu_busy_ratio", type: "DOUBLE" },
    ],
  },
  {
    name: "host_mount",
    description: "mounts",
    columns: [
      { name: "mount", type: "VARCHAR" },
      { name: "used_bytes", type: "INTEGER" },
      { name: "agent_id", type: "VARCHAR" },
    ],
  },
];

const migrations = [
  {
    version: 1,
    sql: `CREATE TABLE tokens (id VARCHAR, secret VARCHAR);
      INSERT INTO tokens VALUES ('t1', 'hidden');
      CREATE TABLE host (agent_id VARCHAR, time TIMESTAMP, cpu_busy_ratio DOUBLE);
      INSERT INTO host SELECT 'agent-' || (range % 3), TIMESTAMP '2026-01-01' + INTERVAL (range * 15) SECOND, (range % 10) / 10 FROM range(3000);
      CREATE SEQUENCE numbers;
      CREATE MACRO leak() AS (SELECT secret FROM tokens);
      CREATE SCHEMA views;
      CREATE VIEW views.host AS SELECT * FROM colony.main.host;
      CREATE VIEW views.host_mount AS SELECT '/' AS mount, 10 AS used_bytes, agent_id FROM colony.main.host;
      CREATE VIEW main.internal_view AS SELECT * FROM colony.main.tokens;`,
  },
];

/** Bundles the current source, because dist/ may be older. */
async function bundleSqlProcess(directory: string): Promise<string> {
  const file = join(directory, "sql-process.mjs");
  await build({
    entryPoints: [join(import.meta.dirname, "../../main/sql-process.ts")],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["@duckdb/*"],
    logLevel: "error",
  });
  // Next to the program, where Node looks for packages.
  symlinkSync(join(import.meta.dirname, "../../../node_modules"), join(directory, "node_modules"));
  return file;
}

export class PublishedDatabase implements AsyncDisposable {
  readonly database: Database;
  /** In the directory that DuckDB may read. */
  readonly secretFile: string;
  readonly sqlProcesses: SqlProcesses;
  readonly #directory: string;
  readonly #engine: Engine;
  /** Shared by all calls, because the queue limit applies per source. */
  readonly #source: ReadOnlySqlSource;

  private constructor(directory: string, engine: Engine, database: Database, sqlProcesses: SqlProcesses) {
    this.sqlProcesses = sqlProcesses;
    this.#directory = directory;
    this.#engine = engine;
    this.database = database;
    this.#source = { publishedViews: () => views, database, sqlProcesses };
    this.secretFile = join(directory, "secret.csv");
    writeFileSync(this.secretFile, "secret\nhidden\n");
  }

  static async open(): Promise<PublishedDatabase> {
    const directory = mkdtempSync(join(tmpdir(), "coral-sql-"));
    const log = createLogger("test", "error", () => {});
    const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1, log });
    const database = await engine.attach("colony", join(directory, "colony.duckdb"), migrations, { readSchema: "views" });
    const settings = { dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1 };
    const processes = new SqlProcesses({
      ...settings,
      scratchDirectory: directory,
      maySpill: false,
      file: await bundleSqlProcess(directory),
      log,
    });
    return new PublishedDatabase(directory, engine, database, processes);
  }

  run(sql: string, options: Partial<ReadOnlySqlOptions> = {}): Promise<SqlResult> {
    return runReadOnlySql(this.#source, { sql, maxRows: 100, maxBytes: 1_000_000, timeoutMs: 20_000, ...options });
  }

  /** The error of a statement; throws if it succeeds. */
  async failure(sql: string, options: Partial<ReadOnlySqlOptions> = {}): Promise<CoralError> {
    try {
      const result = await this.run(sql, options);
      throw new Error(`it succeeded with ${JSON.stringify(result).slice(0, 200)}`);
    } catch (error) {
      if (error instanceof CoralError) return error;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sqlProcesses.close();
    await this.#engine.close();
    rmSync(this.#directory, { recursive: true });
  }
}
