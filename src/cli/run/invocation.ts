import { resolveHome } from "../../config/index.ts";
import type { CliIo } from "../output/cli-io.ts";
import type { Printer } from "../output/printer.ts";
import type { CommandSpec, OptionSpec } from "./command-spec.ts";
import type { Options } from "./options.ts";
import type { OutputFormat } from "./output-format.ts";
import type { CliRuntime } from "./runtime.ts";

/** One call of a command, with everything it may use. */
export interface Invocation {
  /** The command's path: `agent list`. */
  command: string;
  spec: CommandSpec;
  /** Positional arguments; omitted ones are undefined. */
  args: readonly (string | undefined)[];
  /** Words after `--`; undefined without `--`. Also at the end of `args`. */
  passed: readonly string[] | undefined;
  options: Options;
  format: OutputFormat;
  /** --colony, else CORAL_COLONY: a context's name or a colony's id. */
  colony: string | undefined;
  logLevel: string | undefined;
  /** All commands, for completions. */
  table: { root: CommandSpec; globals: readonly OptionSpec[] };
  /** How this program was started, for config blocks of programs that start it. */
  program: { node: string; script: string };
  runtime: CliRuntime;
  io: CliIo;
  print: Printer;
  /** Sets the exit code of a successful call; default 0. */
  setExitCode(code: number): void;
}

/** CORAL_HOME of this call. */
export function homeOf(invocation: Invocation): string {
  return resolveHome(invocation.io.env);
}
