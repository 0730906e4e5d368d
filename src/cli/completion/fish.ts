/**
 * The completion script for fish. fish has no notion of sub-commands: every candidate carries a condition, and functions at the
 * top of the script determine the current command. fish evaluates all conditions on each tab, so they must be cheap.
 */

import type { ArgumentSpec, CommandSpec, OptionSpec } from "../run/command-spec.ts";
import { type CompletionNode, completionNodes, quoted, valueFlags } from "./completion-nodes.ts";

/** `-f` disables file names by default; arguments that are files enable them again with -F. */
export function fishCompletion(root: CommandSpec, globals: readonly OptionSpec[]): string {
  const nodes = completionNodes(root, globals);
  const paths = nodes.map((node) => node.path).filter((path) => path !== "");
  return `# fish completion of coral; use: coral completion fish | source
function __coral_state --description 'Print the command path and the number of arguments typed so far'
  set -l where ''
  set -l count 0
  set -l pending 0
  for word in (commandline -opc)[2..-1]
    if test $pending = 1
      set pending 0
      continue
    end
    switch $word
      case ${valueFlags(nodes).join(" ")}
        set pending 1
      case '-*'
      case '*'
        if contains -- "$where/$word" ${paths.join(" ")}
          set where "$where/$word"
        else
          set count (math $count + 1)
        end
    end
  end
  echo "$where $count"
end
function __coral_at --description 'Whether the command line is at this command'
  test (string split ' ' -- (__coral_state))[1] = "$argv[1]"
end
function __coral_argument --description 'Whether the next word is this argument of this command'
  test (__coral_state) = "$argv[1] $argv[2]"
end
complete -c coral -f
${nodes.flatMap(linesOf).join("\n")}
`;
}

function linesOf(node: CompletionNode): string[] {
  const at = quoted(`__coral_at '${node.path}'`, "\\'");
  const commands = node.commands.map((command) => `complete -c coral -n ${at} -a ${command.name} -d ${text(command.summary)}`);
  const options = node.options.map((option) => {
    const short = option.short === undefined ? "" : ` -s ${option.short}`;
    const values = option.value === undefined || option.valueOptional ? "" : ` ${valuesOf(option)}`;
    return `complete -c coral -n ${at} -l ${option.name}${short}${values} -d ${text(option.description)}`;
  });
  const values = node.arguments.flatMap((argument, index) => {
    if (!argument.choices && !argument.completes) return [];
    const test = argument.variadic ? `__coral_at '${node.path}'` : `__coral_argument '${node.path}' ${index}`;
    const condition = quoted(test, "\\'");
    // -x and -r apply to the value of an option, so strip them for arguments.
    return [`complete -c coral -n ${condition} ${valuesOf(argument).replace(/^-[xr] ?/, "")} -d ${text(argument.description)}`];
  });
  return [...commands, ...options, ...values];
}

function valuesOf(spec: OptionSpec | ArgumentSpec): string {
  if (spec.choices) return `-x -a ${text(spec.choices.join(" "))}`;
  if (spec.completes === "files") return "-r -F";
  return spec.completes ? `-x -a ${text(`(coral __complete ${spec.completes} 2>/dev/null)`)}` : "-x";
}

/** Inside single quotes, fish still reads a backslash as an escape. */
function text(value: string): string {
  return quoted(value.replaceAll("\\", "\\\\"), "\\'");
}
