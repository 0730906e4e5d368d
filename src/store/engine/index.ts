/**
 * The process's one DuckDB instance: connections, transactions, migrations, and what its errors mean.
 * @module
 */

export type { Opened } from "./database.ts";
export { type Engine, openEngine } from "./engine.ts";
export type { Row, SqlParameter, SqlParameters } from "./sql-values.ts";
