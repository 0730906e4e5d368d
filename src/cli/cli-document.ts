/** Renders docs/cli.md from the command table. `npm run check` fails when the file differs. */

import { commandTable, globalOptions } from "./command-table.ts";
import { type ArgumentSpec, argumentForm, type CommandSpec, type OptionSpec, optionForm } from "./run/command-spec.ts";

export function renderCliDocument(): string {
  const groups = [...new Set((commandTable.commands ?? []).map((command) => command.group))].filter((group) => group !== undefined);
  const lines = [
    "# Commands",
    "",
    "<!-- Generated from src/cli/command-table.ts by `npm run docs`; do not edit. -->",
    "",
    "Answers go to stdout and everything else to stderr. `-o json` prints the whole answer, in a stable format.",
    "Notes about missing data are printed on stderr; in JSON they are in `completeness`.",
    "",
    "| exit code | meaning |",
    "|---|---|",
    "| 0 | success; notes name missing data |",
    "| 1 | failed |",
    "| 2 | not supported by the targets |",
    "| 3 | not permitted |",
    "| 4 | nothing found |",
    "| 64 | invalid command line or config file |",
    "",
    "Options of every command:",
    "",
    ...optionLines(globalOptions),
    "",
    "Environment: `CORAL_HOME` (directory of all data and config, default `~/.coral`), `CORAL_COLONY` (as `--colony`), `CORAL_TOKEN` (a user token, instead of a",
    "context), `CORAL_JOIN_TOKEN` (as `coral agent start --token`), `CORAL_LOG_LEVEL`, `CORAL_LOG_FORMAT`, `NO_COLOR`, `CLICOLOR_FORCE`.",
    "",
  ];
  for (const group of groups) {
    lines.push(`## ${group}`, "");
    for (const command of (commandTable.commands ?? []).filter((item) => item.group === group && !item.hidden))
      lines.push(...commandLines(command, ["coral"]));
  }
  return `${lines.join("\n").trimEnd()}\n`;
}

function commandLines(command: CommandSpec, parents: readonly string[]): string[] {
  const path = [...parents, command.name];
  if (command.commands) return command.commands.flatMap((child) => commandLines(child, path));
  const lines = [
    `### ${path.join(" ")}`,
    "",
    `${command.summary}.${command.description ? ` ${command.description}` : ""}`,
    "",
    "```",
    usageOf(command, path),
    "```",
    "",
  ];
  const details = [...(command.arguments ?? []).map(argumentLine), ...optionLines(command.options ?? [])];
  if (details.length > 0) lines.push(...details, "");
  if (command.examples) lines.push("```bash", ...command.examples.map(([example, what]) => `${example}   # ${what}`), "```", "");
  return lines;
}

function usageOf(command: CommandSpec, path: readonly string[]): string {
  const args = (command.arguments ?? []).map(argumentForm);
  return [...path, ...args, ...(command.options ? ["[options]"] : [])].join(" ");
}

function argumentLine(argument: ArgumentSpec): string {
  return `- \`${argument.name}\`: ${argument.description}${choicesOf(argument)}`;
}

function optionLines(options: readonly OptionSpec[]): string[] {
  return options.map((option) => {
    return `- \`${optionForm(option)}\`: ${option.description}${choicesOf(option)}${option.default === undefined ? "" : ` (default \`${option.default}\`)`}`;
  });
}

function choicesOf(spec: OptionSpec | ArgumentSpec): string {
  return spec.choices ? `: ${spec.choices.map((choice) => `\`${choice}\``).join(", ")}` : "";
}
