/**
 * SQL from people: the published views, the guard that approves a statement, and the limits under which it runs.
 * @module
 */

export { runReadOnlySql } from "./read-only-sql.ts";
