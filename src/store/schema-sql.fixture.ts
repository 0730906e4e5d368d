/** The schema of a store as SQL, one column per line, for golden schemas. */

import type { Database } from "./engine/database.ts";
import type { Row } from "./engine/sql-values.ts";

type Queryable = Pick<Database, "name" | "query">;

/** All schemas, sequences, tables and indexes of the file. Views are left out: they are created at each open. */
export async function schemaSql({ name, query }: Queryable): Promise<string> {
  const list = (sql: string): Promise<Row[]> => query(sql, { name });
  const [file] = await list("SELECT tags['storage_version'] AS version FROM duckdb_databases() WHERE database_name = $name");
  const schemas = await list("SELECT schema_name FROM duckdb_schemas() WHERE database_name = $name AND NOT internal ORDER BY 1");
  const sequences = await list("SELECT schema_name, sequence_name FROM duckdb_sequences() WHERE database_name = $name ORDER BY ALL");
  const tables = await list("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $name ORDER BY ALL");
  const columns = await list(
    `SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns()
     WHERE database_name = $name AND NOT internal ORDER BY column_index`,
  );
  const keys = await list(
    `SELECT schema_name, table_name, constraint_text FROM duckdb_constraints()
     WHERE database_name = $name AND constraint_type <> 'NOT NULL' ORDER BY constraint_index`,
  );
  const indexes = await list("SELECT schema_name, table_name, sql FROM duckdb_indexes() WHERE database_name = $name ORDER BY ALL");
  const statements = [
    ...schemas.filter((row) => row["schema_name"] !== "main").map((row) => `CREATE SCHEMA IF NOT EXISTS ${text(row, "schema_name")};`),
    ...sequences.map((row) => `CREATE SEQUENCE ${text(row, "schema_name")}.${text(row, "sequence_name")};`),
    ...tables.map((table) => tableSql(table, columns.filter(isOf(table)), keys.filter(isOf(table)))),
    ...indexes.map((row) => text(row, "sql")),
  ];
  return `-- DuckDB storage version: ${text(file, "version")}\n\n${statements.join("\n")}\n`;
}

function tableSql(table: Row, columns: readonly Row[], keys: readonly Row[]): string {
  const lines = [
    ...columns.map((column) => {
      const required = column["is_nullable"] === false ? " NOT NULL" : "";
      const initial = column["column_default"] === null ? "" : ` DEFAULT ${text(column, "column_default")}`;
      return `"${text(column, "column_name")}" ${text(column, "data_type")}${required}${initial}`;
    }),
    ...keys.map((key) => text(key, "constraint_text")),
  ];
  return `\nCREATE TABLE IF NOT EXISTS ${text(table, "schema_name")}."${text(table, "table_name")}" (\n  ${lines.join(",\n  ")}\n);`;
}

const isOf = (table: Row) => (row: Row) => row["schema_name"] === table["schema_name"] && row["table_name"] === table["table_name"];

function text(row: Row | undefined, name: string): string {
  return String(row?.[name]);
}
