/**
 * Rows by column, in the byte form that DuckDB and the wire share.
 * @module
 */

export type { RowBatch } from "./column-codec.ts";
