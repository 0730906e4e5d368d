/** Parses a command line, runs its command and returns the exit code. */

import { CommanderError } from "commander";
import { CoralError, exitCodeOf } from "../base/errors.ts";
import { escapeText } from "../base/escape-text.ts";
import { buildProgram, type ParsedCommand } from "./build-program.ts";
import { commandTable, globalOptions } from "./command-table.ts";
import { type CliIo, processIo } from "./output/cli-io.ts";
import { Printer } from "./output/printer.ts";
import { colourStyle, plainStyle, type Style, wantsColour } from "./output/style.ts";
import type { Invocation } from "./run/invocation.ts";
import { Options } from "./run/options.ts";
import type { OutputFormat } from "./run/output-format.ts";
import { checkPlanned } from "./run/planned-commands.ts";
import { createCommandNamer, programName } from "./run/program-name.ts";
import type { CliRuntime } from "./run/runtime.ts";
import { usageError } from "./run/usage-error.ts";

/** `processArgv` includes node and script. Never throws and never exits the process: the caller sets the exit code. */
export async function runCli(processArgv: readonly string[], runtime: CliRuntime, io?: CliIo): Promise<number> {
  const argv = processArgv.slice(2);
  const stop = new AbortController();
  const given = io ?? processIo(stop.signal);
  const streams = { ...given, signal: AbortSignal.any([given.signal, stop.signal]) };
  let isPipeClosed = false;
  let exitCode = 0;
  const setExitCode = (code: number): void => {
    exitCode = code;
  };
  streams.stdout.on?.("error", (error) => {
    // EPIPE: the reader closed the pipe, as in `coral … | head`. Not an error.
    if ("code" in error && error.code === "EPIPE") isPipeClosed = true;
    stop.abort(error);
  });
  const commands = createCommandNamer(
    (commandTable.commands ?? []).map((command) => command.name),
    () => programName({ script: processArgv[1] ?? "coral", env: streams.env, currentDirectory: () => process.cwd() }),
  );
  try {
    const program = buildProgram(streams, (parsed) => runCommand(parsed, runtime, streams, processArgv, commands, setExitCode), argv);
    if (argv.length === 0) {
      program.outputHelp();
      return 0;
    }
    checkPlanned(commandTable, argv);
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (error) {
    if (isPipeClosed) return 0;
    if (error instanceof CommanderError && isHelp(error)) return error.exitCode === 0 ? 0 : exitCodeOf("usage");
    const failure =
      error instanceof CommanderError ? usageError(error, commandTable, globalOptions, argv) : CoralError.from(firstError(error));
    const style = wantsColour(streams.stderr, streams.env, argv.includes("--no-color")) ? colourStyle : plainStyle;
    streams.stderr.write(commands(formatError(failure, style, isDebug(argv, streams))));
    return exitCodeOf(failure.code);
  }
}

async function runCommand(
  parsed: ParsedCommand,
  runtime: CliRuntime,
  io: CliIo,
  processArgv: readonly string[],
  commands: (text: string) => string,
  setExitCode: (code: number) => void,
): Promise<void> {
  const options = new Options(parsed.values);
  const print = new Printer(io, { quiet: options.flag("quiet"), noColour: parsed.values["color"] === false, commands });
  const format = options.flag("json") ? "json" : ((options.text("output") ?? "table") as OutputFormat);
  const invocation: Invocation = {
    command: parsed.path.join(" "),
    spec: parsed.spec,
    args: parsed.args,
    passed: passedWords(processArgv),
    options,
    format,
    colony: options.text("colony") ?? (io.env["CORAL_COLONY"] || undefined),
    logLevel: options.text("log-level"),
    table: { root: commandTable, globals: globalOptions },
    program: { node: processArgv[0] ?? "node", script: processArgv[1] ?? "coral" },
    runtime,
    io,
    print,
    setExitCode,
  };
  const module = await parsed.spec.load?.();
  await module?.run(invocation);
}

/** Words after `--`. Commander merges them into the arguments, so read them from argv. */
function passedWords(argv: readonly string[]): string[] | undefined {
  const place = argv.indexOf("--");
  return place < 0 ? undefined : argv.slice(place + 1);
}

/** `await using` wraps a failure and a later failure of disposal; the user needs the first one. */
function firstError(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== "SuppressedError" || !("suppressed" in error)) return error;
  return firstError(error.suppressed);
}

/** Requested (`--help`, `--version`), or shown because a group was called without a command. */
function isHelp(error: CommanderError): boolean {
  return ["commander.help", "commander.helpDisplayed", "commander.version"].includes(error.code);
}

/** Reads the flag from argv, because a command line that failed to parse has no options yet. */
function isDebug(argv: readonly string[], io: CliIo): boolean {
  const place = argv.indexOf("--log-level");
  const flag = place >= 0 ? argv[place + 1] : argv.find((word) => word.startsWith("--log-level="))?.slice("--log-level=".length);
  return (flag ?? io.env["CORAL_LOG_LEVEL"]) === "debug";
}

/** `error: …` on one line; with `causes` also the chain of causes and the stack of the deepest. */
function formatError(error: CoralError, style: Style, causes: boolean): string {
  const lines = [`${style("red", "error:")} ${escapeText(error.message)}`];
  if (causes) {
    lines.push(`  code: ${error.code}`);
    let deepest: Error = error;
    for (let cause = error.cause; cause !== undefined && cause !== null; ) {
      const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : (JSON.stringify(cause) ?? typeof cause);
      lines.push(`  caused by: ${escapeText(text)}`);
      if (!(cause instanceof Error)) break;
      deepest = cause;
      cause = cause.cause;
    }
    for (const frame of (deepest.stack ?? "").split("\n").slice(1)) lines.push(`  ${escapeText(frame.trim())}`);
  }
  return `${lines.join("\n")}\n`;
}
