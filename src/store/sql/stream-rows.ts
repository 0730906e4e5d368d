import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../base/errors.ts";
import type { SqlRequest, SqlResult } from "../../model/sql.ts";
import type { Connection } from "../engine/connection.ts";
import { BudgetSpent, ByteBudget, jsonReader } from "./guard/json-reader.ts";
import { typeName } from "./guard/type-name.ts";

export type SqlRows = Pick<SqlResult, "columns" | "rows" | "truncated">;

/** Takes rows as they are made and leaves when there is one too many. */
export async function streamRows(connection: Connection, { sql, maxRows, maxBytes }: Omit<SqlRequest, "timeoutMs">): Promise<SqlRows> {
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
