/** Turns parser errors into usage errors with the input, a spelling suggestion and the help command. */

import type { CommanderError } from "commander";
import { closest } from "../../base/closest.ts";
import { CoralError } from "../../base/errors.ts";
import type { CommandSpec, OptionSpec } from "./command-spec.ts";

/** Follows `argv` down the command tree as far as it matches; `rest` are the remaining arguments. */
export function findCommand(root: CommandSpec, words: readonly string[]): { spec: CommandSpec; path: string[]; rest: string[] } {
  let spec = root;
  const path: string[] = [];
  for (const [index, word] of words.entries()) {
    const next = spec.commands?.find((command) => command.name === word);
    if (!next) return { spec, path, rest: words.slice(index) };
    spec = next;
    path.push(word);
  }
  return { spec, path, rest: [] };
}

/** Commander's own messages differ in form and carry no hint, so only their codes and quoted words are used. */
export function usageError(error: CommanderError, root: CommandSpec, globals: readonly OptionSpec[], argv: readonly string[]): CoralError {
  const words = argv.filter((word) => !word.startsWith("-"));
  const { spec, path } = findCommand(root, words);
  const help = `see "coral ${[...path, "--help"].join(" ")}"`;
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? "";
  return new CoralError({ code: "usage", message: messageOf(error, spec, path, globals, quoted, help), cause: error });
}

function messageOf(
  error: CommanderError,
  spec: CommandSpec,
  path: string[],
  globals: readonly OptionSpec[],
  quoted: string,
  help: string,
): string {
  switch (error.code) {
    case "commander.unknownCommand": {
      const near = closest(quoted, namesOf(spec));
      return `Unknown command "${[...path, quoted].join(" ")}"; ${near ? `did you mean "coral ${[...path, near].join(" ")}"? ` : ""}${help}`;
    }
    case "commander.unknownOption": {
      const known = [...(spec.options ?? []), ...globals].map((option) => `--${option.name}`);
      const near = closest(quoted.split("=")[0] ?? quoted, known);
      return `Unknown option "${quoted}"; ${near ? `did you mean "${near}"? ` : ""}${help}`;
    }
    case "commander.missingArgument":
      return `Missing argument <${quoted}> of "coral ${path.join(" ")}"; ${help}`;
    case "commander.optionMissingArgument":
      return `Missing value of option ${quoted}; ${help}`;
    case "commander.invalidArgument":
      return `${invalidValue(error.message)}; ${help}`;
    case "commander.excessArguments":
      return `Too many arguments for "coral ${path.join(" ")}"; ${help}`;
    default:
      return `${error.message.replace(/^error: /, "").replaceAll("'", '"')}; ${help}`;
  }
}

/** Parses commander's message: option '-o, --output <format>' argument 'xml' is invalid. Allowed choices are json, yaml. */
function invalidValue(message: string): string {
  const option = /option '[^']*--([a-z-]+)[^']*' argument '([^']*)' is invalid/.exec(message);
  const argument = /value '([^']*)' is invalid for argument '([^']*)'/.exec(message);
  const [name, value] = option ? [`--${option[1]}`, option[2] ?? ""] : [`<${argument?.[2] ?? "argument"}>`, argument?.[1] ?? ""];
  const choices = /Allowed choices are (.*)\.$/.exec(message)?.[1]?.split(", ") ?? [];
  const near = closest(value, choices);
  return `Cannot use ${name} "${value}": ${near ? `did you mean "${near}"? ` : ""}allowed values: ${choices.join(", ")}`;
}

function namesOf(spec: CommandSpec): string[] {
  return (spec.commands ?? []).filter((command) => !command.hidden).map((command) => command.name);
}
