/**
 * Audit entries in the store: the writer of a chain, queries over it, and the checks that find a changed or missing entry.
 * @module
 */

export { AuditWriter } from "./audit-writer.ts";
export { type ColonyAudit, isOwnEntry, openColonyAudit } from "./colony-audit.ts";
export { CopyCheck } from "./copy-check.ts";
export { openCommands, queryAudit, queryAuditEntries } from "./query-audit.ts";
export { type CopiedChain, copiedLinks, ownLinks, verifyCopies, verifyOwnChain } from "./verify-audit.ts";
