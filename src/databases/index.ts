/**
 * Reads what databases on this host report about themselves, over their own protocols, in read-only sessions with limits on time and size.
 * @module
 */

export { inspectDatabase } from "./inspect-database.ts";
