/** Users' SQL: the published views, the guard that approves a statement, and the limits under which it runs. @module */

export { runSqlProcess } from "./process/run-sql-process.ts";
export type { SqlOrder } from "./process/sql-orders.ts";
export { runReadOnlySql } from "./read-only-sql.ts";
export { renderViewsDocument } from "./views-document.ts";
