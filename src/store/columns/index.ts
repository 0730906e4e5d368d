/** Rows by column, in the byte layout that DuckDB and the wire share. @module */

export type { RowBatch } from "./column-codec.ts";
