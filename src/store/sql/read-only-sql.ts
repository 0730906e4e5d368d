/** SQL from people and assistants: one reading statement over the published views, with limits of rows, bytes, time and memory. */

import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../base/errors.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { formatDurationMs } from "../../base/units.ts";
import type { SqlRequest, SqlResult } from "../../model/sql.ts";
import type { Connection } from "../engine/connection.ts";
import { failureOf, isUnexplained } from "../engine/duckdb-errors.ts";
import { approveStatement } from "./guard/approve-statement.ts";
import { BudgetSpent, ByteBudget, jsonReader } from "./guard/json-reader.ts";
import { typeName } from "./guard/type-name.ts";
import { type SqlWatch, watchSql } from "./guard/watch-sql.ts";
import type { PublishedView } from "./published-views.ts";
import type { ViewPreparation, ViewUse } from "./segment-views.ts";

export interface ReadOnlySqlOptions extends SqlRequest {
  signal?: AbortSignal;
}

/** The part of a store that this needs: a read connection whose unqualified names are the published views. */
export interface ReadOnlySqlSource {
  publishedViews(): readonly PublishedView[];
  /** What the connection needs before these views are read. */
  prepareViews?(views: readonly ViewUse[]): Promise<ViewPreparation>;
  /** Told of failures that are not the statement's. */
  readonly segments?: { suspect(): void } | undefined;
  database: { withConnection<T>(work: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> };
}

/** One at a time: a store has two readers, and the other one must stay free for Coral's own questions. */
const maxRunning = 1;
const maxWaiting = 16;
const gates = new WeakMap<ReadOnlySqlSource, Semaphore>();

/** Throws `not-permitted` for a statement outside what is allowed, `invalid` for wrong SQL, `timeout`, `exhausted` or `cancelled`. */
export async function runReadOnlySql(source: ReadOnlySqlSource, options: ReadOnlySqlOptions): Promise<SqlResult> {
  const gate = gates.get(source) ?? new Semaphore(maxRunning);
  gates.set(source, gate);
  if (gate.waiting >= maxWaiting) {
    throw new CoralError({
      code: "unavailable",
      message: `Cannot run SQL: ${gate.waiting} statements are waiting already; try again in a moment`,
    });
  }
  return await gate.run(async () => {
    options.signal?.throwIfAborted();
    return await source.database.withConnection((connection) => runGuarded(connection, source, options));
  });
}

async function runGuarded(connection: Connection, source: ReadOnlySqlSource, options: ReadOnlySqlOptions): Promise<SqlResult> {
  const startMs = performance.now();
  const watch = watchSql(connection, options);
  let prepared: ViewPreparation | undefined;
  try {
    const approved = await approveStatement(connection, source.publishedViews(), options.sql);
    if (approved.kind === "query") prepared = await source.prepareViews?.(approved.uses);
    for (const statement of prepared?.before ?? []) await connection.run(statement);
    const result = approved.kind === "answered" ? bounded(approved, options.maxRows) : await stream(connection, options);
    return { ...result, views: approved.views, elapsedMs: Math.round(performance.now() - startMs) };
  } catch (error) {
    if (prepared !== undefined && prepared.before.length > 0 && watch.ended === undefined && isUnexplained(error))
      source.segments?.suspect();
    throw explained(error, watch, options);
  } finally {
    watch.stop();
    for (const statement of prepared?.after ?? []) await connection.run(statement);
  }
}

type Rows = Pick<SqlResult, "columns" | "rows" | "truncated">;

function bounded({ columns, rows }: Omit<Rows, "truncated">, maxRows: number): Rows {
  return { columns, rows: rows.slice(0, maxRows), truncated: rows.length > maxRows };
}

/** Takes rows as they are made and leaves when there is one too many. */
async function stream(connection: Connection, { sql, maxRows, maxBytes }: ReadOnlySqlOptions): Promise<Rows> {
  const statement = await duckdb.prepare(connection.handle, sql);
  let isDone = false;
  try {
    const result = await duckdb.execute_prepared_streaming(statement);
    const columns = columnsOf(result);
    const budget = new ByteBudget(maxBytes);
    const rows: unknown[][] = [];
    let truncated = false;
    while (!truncated) {
      const chunk = await duckdb.fetch_chunk(result);
      if (chunk === null || duckdb.data_chunk_get_size(chunk) === 0) {
        isDone = true;
        break;
      }
      truncated = !appendRows(rows, chunk, columns.length, maxRows, budget);
    }
    if (truncated && rows.length === 0) {
      throw new CoralError({
        code: "exhausted",
        message: `Cannot return the result: its first row alone is longer than ${maxBytes} bytes; select fewer or shorter columns`,
      });
    }
    return { columns, rows, truncated };
  } finally {
    duckdb.destroy_prepare_sync(statement);
    // The next statement ends a stream that was left early; without one it would hold its memory until then.
    if (!isDone) await connection.query("SELECT 1");
  }
}

/** False when a limit was reached. */
function appendRows(rows: unknown[][], chunk: duckdb.DataChunk, columnCount: number, maxRows: number, budget: ByteBudget): boolean {
  const count = duckdb.data_chunk_get_size(chunk);
  try {
    const readers = Array.from({ length: columnCount }, (_, column) =>
      jsonReader(duckdb.data_chunk_get_vector(chunk, column), count, budget),
    );
    for (let index = 0; index < count; index++) {
      if (rows.length >= maxRows) return false;
      rows.push(readers.map((read) => read(index)));
    }
  } catch (error) {
    if (error instanceof BudgetSpent) return false;
    throw error;
  }
  return true;
}

function columnsOf(result: duckdb.Result): SqlResult["columns"] {
  return Array.from({ length: duckdb.column_count(result) }, (_, index) => ({
    name: duckdb.column_name(result, index),
    type: typeName(duckdb.column_logical_type(result, index)),
  }));
}

const messageMaxLength = 1_000;

/** Says what happened and what to do; what is wrong with the store rather than the statement goes up as it is. */
function explained(error: unknown, watch: SqlWatch, options: ReadOnlySqlOptions): unknown {
  if (error instanceof CoralError) return error;
  const failure = failureOf(error);
  if (failure === "interrupted" || watch.ended !== undefined) {
    switch (watch.ended) {
      case "timeout":
        return new CoralError({
          code: "timeout",
          message: `Cannot finish the SQL statement: it took longer than ${formatDurationMs(options.timeoutMs)}; narrow it with WHERE time > …, or raise the time limit`,
          cause: error,
        });
      case "memory":
        return outOfMemory(error);
      default:
        return new CoralError({ code: "cancelled", message: "Cannot finish the SQL statement: it was cancelled", cause: error });
    }
  }
  if (failure === "out-of-memory") return outOfMemory(error);
  if (failure !== "statement") return error;
  const text = oneLine(error instanceof Error ? error.message : String(error)).slice(0, messageMaxLength);
  return new CoralError({ code: "invalid", message: `Cannot run SQL: ${text}`, cause: error });
}

/** The engine's words without its headline and its drawing of the statement: `Referenced column "x" not found; Candidate bindings: …`. */
function oneLine(text: string): string {
  const message = (text.split(/\n+LINE \d+:/, 1)[0] ?? text).replace(/^[A-Z][A-Za-z ]* Error: /, "");
  return message
    .split("\n")
    .map((line) => line.trim().replace(/[!.]$/, ""))
    .filter((line) => line !== "")
    .join("; ");
}

function outOfMemory(cause: unknown): CoralError {
  const message =
    "Cannot finish the SQL statement: it needs more memory than the store may use; filter earlier, aggregate, or sort and join less";
  return new CoralError({ code: "exhausted", message, cause });
}
