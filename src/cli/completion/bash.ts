import type { ArgumentSpec, CommandSpec, OptionSpec } from "../run/command-spec.ts";
import { completionNodes, flagsOf } from "./completion-nodes.ts";
import { type Offers, offerCases, stepCases } from "./shell-cases.ts";

/** The completion script for bash. Needs bash 4, but not the bash-completion package. */
export function bashCompletion(root: CommandSpec, globals: readonly OptionSpec[]): string {
  const nodes = completionNodes(root, globals);
  return `# bash completion of coral; use: source <(coral completion bash)
_coral() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" where="" pending="" count=0 words="" files="" i word
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    # Bash splits --flag=value into three words.
    if [[ $word == "=" ]]; then continue; fi
${stepCases(nodes)}
  done
  if [[ $cur == "=" ]]; then cur=""; fi
${offerCases(nodes, "cur", offers)}
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  fi
}
complete -F _coral coral
`;
}

const offers: Offers = {
  commands: (node) => `words="${node.commands.map((command) => command.name).join(" ")}"`,
  flags: (node) => `words="${node.options.flatMap(flagsOf).join(" ")}"`,
  values: valueAction,
};

/** Candidates for the value of an option or argument, in the order: fixed choices, files, names from a daemon. */
function valueAction(spec: OptionSpec | ArgumentSpec): string | undefined {
  if (spec.choices) return `words="${spec.choices.join(" ")}"`;
  if (spec.completes === "files") return "files=1";
  // COMP_WORDS[0] is the program as typed, so that ./bin/coral completes with itself.
  return spec.completes && `words="$("\${COMP_WORDS[0]}" __complete ${spec.completes} 2>/dev/null)"`;
}
