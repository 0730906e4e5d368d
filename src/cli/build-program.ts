/** Builds the commander parser from the command table. */

import { Argument, Command, Option } from "commander";
import { version } from "../base/version.ts";
import { commandTable, globalOptions } from "./command-table.ts";
import type { CliIo } from "./output/cli-io.ts";
import { type ArgumentSpec, argumentForm, type CommandSpec, type OptionSpec, optionForm } from "./run/command-spec.ts";

/** A parsed command line. */
export interface ParsedCommand {
  spec: CommandSpec;
  path: readonly string[];
  args: readonly (string | undefined)[];
  values: Readonly<Record<string, unknown>>;
}

/** `found` runs the parsed command. The parser throws CommanderError and never exits the process: output must be flushed and daemons closed first. */
export function buildProgram(io: CliIo, found: (parsed: ParsedCommand) => Promise<void>, argv: readonly string[] = []): Command {
  const program = new Command("coral");
  program
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      // Errors are printed by the caller, in one form for all.
      outputError: () => undefined,
      getOutHelpWidth: () => helpWidth(io),
      getErrHelpWidth: () => helpWidth(io),
    })
    .configureHelp({ showGlobalOptions: true })
    .showSuggestionAfterError(false)
    .helpOption("-h, --help", "Show help");
  // --version means the program's version anywhere on the line, unless the command has an option of that name.
  if (!hasOwnVersion(argv)) program.version(`coral ${version}`, "-V, --version", "Print the version");
  fill(program, commandTable, [], found);
  program.helpCommand("help [command]", "Show help of a command");
  for (const option of globalOptions) program.addOption(optionOf(option));
  return program;
}

/** `coral deploy mark --version 1.4.2` means the deployed version, not Coral's. */
function hasOwnVersion(argv: readonly string[]): boolean {
  let spec: CommandSpec = commandTable;
  for (const word of argv) {
    const child: CommandSpec | undefined = spec.commands?.find(({ name }) => name === word);
    if (child) spec = child;
  }
  return spec.options?.some(({ name }) => name === "version") ?? false;
}

/** Long lines are hard to read, so help never uses more than 120 columns. Pipes report no width. */
function helpWidth(io: CliIo): number {
  return Math.min(120, io.stdout.columns ?? 100);
}

/** Adds a command and its children. Groups without `load` only print their help. */
function fill(command: Command, spec: CommandSpec, path: readonly string[], found: (parsed: ParsedCommand) => Promise<void>): void {
  command.helpCommand(false);
  command.description(spec.description ? `${spec.summary}. ${spec.description}` : spec.summary).summary(spec.summary);
  for (const argument of spec.arguments ?? []) command.addArgument(argumentOf(argument));
  for (const option of spec.options ?? []) command.addOption(optionOf(option));
  if (spec.examples) {
    const lines = spec.examples.map(([example, what]) => `  ${example.padEnd(widestExample(spec.examples))}  ${what}`);
    command.addHelpText("after", `\nExamples:\n${lines.join("\n")}`);
  }
  for (const child of spec.commands ?? []) {
    const childCommand = command.command(child.name, { hidden: child.hidden ?? false });
    if (child.group) childCommand.helpGroup(`${child.group}:`);
    fill(childCommand, child, [...path, child.name], found);
  }
  if (!spec.load) return;
  const count = spec.arguments?.length ?? 0;
  command.action(async (...parameters: unknown[]) => {
    const given = parameters.slice(0, count).flatMap((value: unknown) => (Array.isArray(value) ? value : [value]) as unknown[]);
    const args = given.map((value) => (typeof value === "string" ? value : undefined));
    await found({ spec, path, args, values: command.optsWithGlobals() });
  });
}

function widestExample(examples: CommandSpec["examples"]): number {
  return Math.max(...(examples ?? []).map(([example]) => example.length));
}

function argumentOf(spec: ArgumentSpec): Argument {
  const argument = new Argument(argumentForm(spec), spec.description);
  return spec.choices ? argument.choices(spec.choices) : argument;
}

function optionOf(spec: OptionSpec): Option {
  const description = spec.default === undefined ? spec.description : `${spec.description} (default ${spec.default})`;
  const option = new Option(optionForm(spec), description);
  if (spec.collects) option.argParser((value: string, before: unknown) => [...(Array.isArray(before) ? (before as unknown[]) : []), value]);
  return spec.choices ? option.choices(spec.choices) : option;
}
