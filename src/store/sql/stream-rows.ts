import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../base/errors.ts";
import type { SqlRequest, SqlResult } from "../../model/sql.ts";
import type { Connection } from "../engine/connection.ts";
import { BudgetSpent, ByteBudget, jsonReader } from "./guard/json-reader.ts";

export type SqlRows = Pick<SqlResult, "columns" | "rows" | "truncated">;

/** Reads rows as they are produced, and stops at the first one beyond the limit. */
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
    // A stream that was left early holds its memory until the next statement ends it.
    if (!isDone) await connection.query("SELECT 1");
  }
}

/** Returns false when a limit was reached. */
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

/** The SQL name of a type: `BIGINT`, `DECIMAL(18,3)`, `STRUCT(a INTEGER)[]`. */
function typeName(type: duckdb.LogicalType): string {
  const alias = duckdb.logical_type_get_alias(type);
  if (alias !== null && alias !== "") return alias;
  const { Type } = duckdb;
  const id = duckdb.get_type_id(type);
  switch (id) {
    case Type.DECIMAL:
      return `DECIMAL(${duckdb.decimal_width(type)},${duckdb.decimal_scale(type)})`;
    case Type.LIST:
      return `${typeName(duckdb.list_type_child_type(type))}[]`;
    case Type.ARRAY:
      return `${typeName(duckdb.array_type_child_type(type))}[${duckdb.array_type_array_size(type)}]`;
    case Type.MAP:
      return `MAP(${typeName(duckdb.map_type_key_type(type))}, ${typeName(duckdb.map_type_value_type(type))})`;
    case Type.STRUCT: {
      const fields = Array.from({ length: duckdb.struct_type_child_count(type) }, (_, field) => {
        return `${duckdb.struct_type_child_name(type, field)} ${typeName(duckdb.struct_type_child_type(type, field))}`;
      });
      return `STRUCT(${fields.join(", ")})`;
    }
    case Type.TIMESTAMP_TZ:
      return "TIMESTAMP WITH TIME ZONE";
    case Type.SQLNULL:
      return "NULL";
    default:
      return Type[id] ?? `type ${id}`;
  }
}
