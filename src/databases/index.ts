/**
 * Reads what databases of this machine report about themselves, over their own protocols, in read-only sessions of bounded time and size.
 *
 * @module
 */

export { inspectDatabase } from "./inspect-database.ts";
