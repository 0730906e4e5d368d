/**
 * The command line: parse, call a daemon, print. Daemons themselves are run by the composition root through `CliRuntime`.
 * @module
 */

export { renderCliDocument } from "./cli-document.ts";
export type {
  CliRuntime,
  ColonyInitialised,
  DaemonKind,
  DaemonReady,
  DaemonStarted,
  DaemonStopped,
  DoctorCheck,
  RunOptions,
} from "./run/runtime.ts";
export { runCli } from "./run-cli.ts";
