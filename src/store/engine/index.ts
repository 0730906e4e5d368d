/** The process's DuckDB instance: connections, transactions, migrations and the classification of its errors. @module */

export type { Opened } from "./database.ts";
export { type Engine, openEngine } from "./engine.ts";
export type { Row, SqlParameter, SqlParameters } from "./sql-values.ts";
