/** SQL from people and assistants: one read-only statement over the published views, with limits on rows, bytes, time and memory. */

import type { SqlRequest, SqlResult } from "../../model/sql.ts";
import type { Connection } from "../engine/connection.ts";
import { isUnexplained } from "../engine/duckdb-errors.ts";
import { endedError, explainFailure } from "./explain-failure.ts";
import { type ApprovedQuery, refuseInternalNames } from "./guard/approve-statement.ts";
import { type SqlWatch, watchSql } from "./guard/watch-sql.ts";
import { type SnapshotView, snapshotViews } from "./process/snapshot-views.ts";
import { SqlFailure, type SqlProcess, type SqlProcesses } from "./process/sql-processes.ts";
import { type PublishedView, viewSchema } from "./published-views.ts";
import type { ViewPreparation, ViewUse } from "./segment-views.ts";
import { type SqlRows, streamRows } from "./stream-rows.ts";

export interface ReadOnlySqlOptions extends SqlRequest {
  signal?: AbortSignal;
}

/** What this needs from a store: a read connection whose unqualified names refer to the published views. */
export interface ReadOnlySqlSource {
  publishedViews(): readonly PublishedView[];
  readonly sqlProcesses: SqlProcesses;
  /** What the connection needs before these views are read. */
  prepareViews?(views: readonly ViewUse[]): Promise<ViewPreparation>;
  /** Notified of failures that are not the statement's fault. */
  readonly segments?: { suspect(): void } | undefined;
  database: { withConnection<T>(work: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> };
}

/**
 * A text that took longer to parse is from then on only parsed where parsing can be killed: DuckDB's parser takes cubic time for `SELECT
 * ++++…`.
 */
const quickParseMs = 500;
/** Limit on the exported rows of tables for one statement, in compressed files. */
const snapshotMaxBytes = 512 * 1024 ** 2;

/** Throws `not-permitted` for a statement outside the allow list, `invalid` for wrong SQL, `timeout`, `exhausted` or `cancelled`. */
export async function runReadOnlySql(source: ReadOnlySqlSource, options: ReadOnlySqlOptions): Promise<SqlResult> {
  return await source.sqlProcesses.use(async (process) => {
    const { signal } = options;
    const startMs = performance.now();
    const remainingMs = (): number => Math.max(1, options.timeoutMs - (performance.now() - startMs));
    try {
      signal?.throwIfAborted();
      const order = { kind: "approve", sql: options.sql, timeoutMs: options.timeoutMs, views: source.publishedViews() } as const;
      const approved = await process.order(order, { timeoutMs: options.timeoutMs, signal });
      if (approved.kind === "answered") return finished(bounded(approved, options.maxRows), approved.views, startMs);
      const isPlain = approved.isPlain && performance.now() - startMs < quickParseMs;
      const statement: Statement = { approved, options, remainingMs };
      const rows = isPlain ? await runInEngine(source, statement) : await runInProcess(source, process, statement);
      return finished(rows, approved.views, startMs);
    } catch (error) {
      if (!(error instanceof SqlFailure)) throw error;
      if (error.isUnexplained) source.segments?.suspect();
      // The last step had only the remaining time.
      throw error.error.code === "timeout" ? endedError("timeout", options.timeoutMs, error.error) : error.error;
    }
  });
}

interface Statement {
  approved: ApprovedQuery;
  options: ReadOnlySqlOptions;
  remainingMs: () => number;
}

function finished(rows: SqlRows, views: string[], startMs: number): SqlResult {
  return { ...rows, views, elapsedMs: Math.round(performance.now() - startMs) };
}

function bounded({ columns, rows }: Omit<SqlRows, "truncated">, maxRows: number): SqlRows {
  return { columns, rows: rows.slice(0, maxRows), truncated: rows.length > maxRows };
}

/** Runs in the daemon, next to the tables, without exporting rows. */
async function runInEngine(source: ReadOnlySqlSource, statement: Statement): Promise<SqlRows> {
  const { approved, options } = statement;
  return await source.sqlProcesses.engineSlot.run(() =>
    source.database.withConnection((connection) =>
      watched(connection, statement, async (watch) => {
        await refuseInternalNames(connection, source.publishedViews(), approved.cteNames);
        const prepared = await source.prepareViews?.(approved.uses);
        try {
          for (const text of prepared?.before ?? []) await connection.run(text);
          return await streamRows(connection, options);
        } catch (error) {
          if (prepared !== undefined && prepared.before.length > 0 && watch.ended === undefined && isUnexplained(error))
            source.segments?.suspect();
          throw error;
        } finally {
          for (const text of prepared?.after ?? []) await connection.run(text);
        }
      }),
    ),
  );
}

/** Runs in an SQL process, over segment files and exported rows of tables. */
async function runInProcess(source: ReadOnlySqlSource, process: SqlProcess, statement: Statement): Promise<SqlRows> {
  const { options, remainingMs } = statement;
  const run = async (isEmpty: boolean): Promise<SqlRows> => {
    const { before, after } = await prepare(source, process, statement, isEmpty);
    const timeoutMs = remainingMs();
    const { sql, maxRows, maxBytes, signal } = options;
    return await process.order({ kind: "run", sql, maxRows, maxBytes, timeoutMs, before, after }, { timeoutMs, signal });
  };
  try {
    return await run(false);
  } catch (error) {
    if (statement.approved.columns === "all" || !(error instanceof SqlFailure) || error.error.code !== "invalid") throw error;
    // DuckDB suggests known columns: only with all of them is the hint right.
    await run(true);
    throw error;
  }
}

async function prepare(source: ReadOnlySqlSource, process: SqlProcess, statement: Statement, isEmpty: boolean): Promise<ViewPreparation> {
  const { approved } = statement;
  const used = source.publishedViews().filter(({ name }) => approved.views.includes(name.toLowerCase()));
  const wanted = used
    .filter((view) => !view.isSegmented)
    .map(
      (view): SnapshotView => ({
        view,
        columns: isEmpty ? "all" : approved.columns,
        range: approved.uses.find(({ name }) => name === view.name.toLowerCase())?.range,
      }),
    );
  const segments = (await source.prepareViews?.(approved.uses)) ?? { before: [], after: [] };
  const made = await source.database.withConnection((connection) =>
    watched(connection, statement, async () => {
      await refuseInternalNames(connection, source.publishedViews(), approved.cteNames);
      const own = await viewStatements(connection, used);
      const copied =
        wanted.length === 0
          ? []
          : await snapshotViews(connection, wanted, { directory: process.directory, maxBytes: snapshotMaxBytes, isEmpty });
      return [...own, ...copied];
    }),
  );
  const before = [`CREATE SCHEMA IF NOT EXISTS ${viewSchema}`, `USE memory.${viewSchema}`, ...made, ...segments.before];
  const drop = used.map(({ name }) => `DROP VIEW IF EXISTS ${viewSchema}."${name}"`);
  return { before, after: [...segments.after, ...drop] };
}

/** Views over segments refer to files, not tables, so they work unchanged in another process. */
async function viewStatements(connection: Connection, used: readonly PublishedView[]): Promise<string[]> {
  const names = used.filter(({ isSegmented }) => isSegmented).map(({ name }) => name);
  if (names.length === 0) return [];
  const rows = await connection.query(
    `SELECT sql FROM duckdb_views() WHERE schema_name = ? AND view_name IN (${names.map(() => "?").join(", ")})`,
    [viewSchema, ...names],
  );
  return rows.map(({ sql }) => String(sql));
}

async function watched<T>(connection: Connection, { options, remainingMs }: Statement, work: (watch: SqlWatch) => Promise<T>): Promise<T> {
  const watch = watchSql(connection, { timeoutMs: remainingMs(), ...(options.signal && { signal: options.signal }) });
  try {
    return await work(watch);
  } catch (error) {
    throw explainFailure(error, watch.ended, options.timeoutMs);
  } finally {
    watch.stop();
  }
}
