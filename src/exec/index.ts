/**
 * Commands at the agent: what they mean, whether they may run, and how they run and end. No shell reads a command's text. The agent loads this room when the
 * first command comes.
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
