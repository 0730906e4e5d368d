/**
 * Commands at the agent: parsing, policy, execution and audit. No shell ever parses a command's text. The agent loads this room when the
 * first command arrives.
 * @module
 */

export type { CommandAudit, CommandAuditEntry } from "./command-audit.ts";
export {
  type CommandOrder,
  CommandRunner,
  type CommandRunnerOptions,
  type HeldCommand,
  type LaunchedProgram,
  type StartedCommand,
} from "./command-runner.ts";
export type { ExecSettings } from "./policy/exec-settings.ts";
export type { CommandEnd } from "./processes/running-command.ts";
