import type { ArgumentSpec, CommandSpec, OptionSpec } from "../run/command-spec.ts";
import { completionNodes, flagsOf, quoted } from "./completion-nodes.ts";
import { type Offers, offerCases, stepCases } from "./shell-cases.ts";

/**
 * The completion script for zsh. Works when sourced, where it registers itself with compdef, and as an autoloaded `_coral` in fpath, where
 * the shell calls the file as the function. `_describe` shows the summaries beside the candidates.
 */
export function zshCompletion(root: CommandSpec, globals: readonly OptionSpec[]): string {
  const nodes = completionNodes(root, globals);
  return `#compdef coral
# zsh completion of coral; use: source <(coral completion zsh), or save it as _coral in a directory of fpath
_coral() {
  local where="" pending="" count=0 i word current="\${words[CURRENT]}"
  local -a items
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
${stepCases(nodes)}
  done
${offerCases(nodes, "current", offers)}
  if (( \${#items} )); then _describe -o 'coral' items; fi
}
if [[ "\${funcstack[1]}" == "_coral" ]]; then
  _coral "$@"
else
  compdef _coral coral
fi
`;
}

const offers: Offers = {
  commands: ({ commands }) =>
    commands.length === 0 ? undefined : `items=(${commands.map(({ name, summary }) => item(name, summary)).join(" ")})`,
  flags: ({ options }) => `items=(${options.flatMap((option) => flagsOf(option).map((flag) => item(flag, option.description))).join(" ")})`,
  values: valueAction,
};

/** `name:description`, the form of _describe; a colon in the name must be escaped. */
function item(name: string, description: string): string {
  return quoted(`${name.replaceAll(":", "\\:")}:${description}`, "'\\''");
}

function valueAction(spec: OptionSpec | ArgumentSpec): string | undefined {
  if (spec.choices) return `items=(${spec.choices.map((choice) => quoted(choice, "'\\''")).join(" ")})`;
  if (spec.completes === "files") return "_files";
  return spec.completes && `items=(\${(f)"$("\${words[1]}" __complete ${spec.completes} 2>/dev/null)"})`;
}
