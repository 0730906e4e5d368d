import type { ArgumentSpec, CommandSpec, OptionSpec } from "../command-spec.ts";
import { argumentPattern, completionNodes, flagsOf, valueFlags } from "./completion-nodes.ts";

/** Needs bash 4 and nothing else: no bash-completion package. */
export function bashCompletion(root: CommandSpec, globals: readonly OptionSpec[]): string {
  const nodes = completionNodes(root, globals);
  const paths = nodes.map((node) => node.path).filter((path) => path !== "");
  const wordCases = nodes.map((node) => `    "${node.path}") words="${node.commands.map((command) => command.name).join(" ")}" ;;`);
  const flagCases = nodes.map((node) => `    "${node.path}") words="${node.options.flatMap(flagsOf).join(" ")}" ;;`);
  const valueCases = nodes.flatMap((node) =>
    node.options.flatMap((option) => {
      const action = valueAction(option);
      return action === undefined
        ? []
        : [
            `    ${flagsOf(option)
              .map((flag) => `"${node.path} ${flag}"`)
              .join("|")}) ${action} ;;`,
          ];
    }),
  );
  const argumentCases = nodes.flatMap((node) =>
    node.arguments.flatMap((argument, index) => {
      const action = valueAction(argument);
      return action === undefined ? [] : [`    ${argumentPattern(node.path, argument, index)}) ${action} ;;`];
    }),
  );
  return `# bash completion of coral; use: source <(coral completion bash)
_coral() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" where="" pending="" count=0 words="" files="" i word
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    # Bash splits --flag=value into three words.
    if [[ $word == "=" ]]; then continue; fi
    if [[ -n $pending ]]; then pending=""; continue; fi
    case "$word" in
    ${valueFlags(nodes).join("|")}) pending="$word" ;;
    -*) ;;
    *)
      case "$where/$word" in
      ${paths.join("|")}) where="$where/$word" ;;
      *) count=$((count + 1)) ;;
      esac
      ;;
    esac
  done
  if [[ $cur == "=" ]]; then cur=""; fi
  if [[ -n $pending ]]; then
    case "$where $pending" in
${valueCases.join("\n")}
    esac
  elif [[ $cur == -* ]]; then
    case "$where" in
${flagCases.join("\n")}
    esac
  else
    case "$where" in
${wordCases.join("\n")}
    esac
    case "$where $count" in
${argumentCases.join("\n")}
    esac
  fi
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

function valueAction(spec: OptionSpec | ArgumentSpec): string | undefined {
  if (spec.choices) return `words="${spec.choices.join(" ")}"`;
  if (spec.completes === "files") return "files=1";
  // The program as it was typed, so that ./bin/coral completes with itself.
  return spec.completes && `words="$("\${COMP_WORDS[0]}" __complete ${spec.completes} 2>/dev/null)"`;
}
