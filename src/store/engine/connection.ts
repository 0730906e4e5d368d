import duckdb from "@duckdb/node-bindings";
import { bindParameters, type Row, readVector, type SqlParameters, type SqlValue } from "./sql-values.ts";

/** At most 2,048 rows, DuckDB's vector size. */
function rowsOf(names: readonly string[], chunk: duckdb.DataChunk): Row[] {
  const count = duckdb.data_chunk_get_size(chunk);
  const columns = names.map((_, column) => readVector(duckdb.data_chunk_get_vector(chunk, column), count));
  return Array.from({ length: count }, (_, index) => {
    const row: Row = {};
    for (const [column, name] of names.entries()) row[name] = columns[column]?.[index] as SqlValue;
    return row;
  });
}

/** A finished result by chunk, for reading whole columns. */
export interface ColumnResult {
  names: string[];
  chunks: duckdb.DataChunk[];
}

/**
 * One DuckDB connection: one statement at a time, its own default schema, at most one transaction. Errors are DuckDB's own; Database maps them.
 * The owner must not let two callers use it at once.
 */
export class Connection {
  readonly handle: duckdb.Connection;
  #open = true;

  private constructor(handle: duckdb.Connection) {
    this.handle = handle;
  }

  static async open(instance: duckdb.Database): Promise<Connection> {
    return new Connection(await duckdb.connect(instance));
  }

  /** Returns all rows. Without parameters, several statements are allowed; the rows of the last one are returned. */
  async query(sql: string, parameters?: SqlParameters): Promise<Row[]> {
    const { names, chunks } = await this.columns(sql, parameters);
    return chunks.flatMap((chunk) => rowsOf(names, chunk));
  }

  /** Passes each row in one reused object: allocating many wide rows would produce more garbage than data. */
  async visit(sql: string, parameters: SqlParameters | undefined, visit: (row: Row) => void): Promise<void> {
    const { names, chunks } = await this.columns(sql, parameters);
    const row: Row = Object.fromEntries(names.map((name) => [name, null]));
    for (const chunk of chunks) {
      const count = duckdb.data_chunk_get_size(chunk);
      const columns = names.map((_, column) => readVector(duckdb.data_chunk_get_vector(chunk, column), count));
      for (let index = 0; index < count; index++) {
        // No iterator: it would allocate an object per value.
        for (let column = 0; column < names.length; column++) row[names[column] ?? ""] = columns[column]?.[index] as SqlValue;
        visit(row);
      }
    }
  }

  /** Number of rows changed by the (last) statement. */
  async run(sql: string, parameters?: SqlParameters): Promise<number> {
    return duckdb.rows_changed(await this.#execute(sql, parameters));
  }

  async columns(sql: string, parameters?: SqlParameters): Promise<ColumnResult> {
    const result = await this.#execute(sql, parameters);
    const chunks = Array.from({ length: duckdb.result_chunk_count(result) }, (_, index) => duckdb.result_get_chunk(result, index));
    return { names: namesOf(result), chunks };
  }

  /** Streams rows, so that a reader with a limit can stop. Leaving the loop early cancels the query. */
  async *stream(sql: string, parameters: SqlParameters = []): AsyncGenerator<Row[], void, undefined> {
    const statement = await duckdb.prepare(this.handle, sql);
    try {
      bindParameters(statement, parameters);
      const result = await duckdb.execute_prepared_streaming(statement);
      const names = namesOf(result);
      for (;;) {
        const chunk = await duckdb.fetch_chunk(result);
        if (chunk === null || duckdb.data_chunk_get_size(chunk) === 0) return;
        yield rowsOf(names, chunk);
      }
    } finally {
      duckdb.destroy_prepare_sync(statement);
    }
  }

  /** Interrupts the running statement. Call it from another event-loop turn. */
  interrupt(): void {
    if (this.#open) duckdb.interrupt(this.handle);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    duckdb.disconnect_sync(this.handle);
  }

  async #execute(sql: string, parameters?: SqlParameters): Promise<duckdb.Result> {
    if (parameters === undefined) return await duckdb.query(this.handle, sql);
    const statement = await duckdb.prepare(this.handle, sql);
    try {
      bindParameters(statement, parameters);
      return await duckdb.execute_prepared(statement);
    } finally {
      duckdb.destroy_prepare_sync(statement);
    }
  }
}

function namesOf(result: duckdb.Result): string[] {
  return Array.from({ length: duckdb.column_count(result) }, (_, index) => duckdb.column_name(result, index));
}
