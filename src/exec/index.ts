/**
 * Commands at the agent: what they mean, whether they may run, and how they run and end. No shell reads a command's text. The agent loads this room when the
 * first command comes.
 * @module
 */

export type { AuditPhase, CommandAudit, CommandAuditEntry, CommandCaller } from "./command-audit.ts";
export { formatCommand, parseCommand, type Stage, stageOfWords } from "./parse-command.ts";
