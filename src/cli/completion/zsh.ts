import type { ArgumentSpec, CommandSpec, OptionSpec } from "../command-spec.ts";
import { argumentPattern, completionNodes, flagsOf, quoted, valueFlags } from "./completion-nodes.ts";

export function zshCompletion(root: CommandSpec, globals: readonly OptionSpec[]): string {
  const nodes = completionNodes(root, globals);
  const paths = nodes.map((node) => node.path).filter((path) => path !== "");
  const wordCases = nodes
    .filter((node) => node.commands.length > 0)
    .map((node) => `    ${key(node.path)}) items=(${node.commands.map((command) => item(command.name, command.summary)).join(" ")}) ;;`);
  const flagCases = nodes.map(
    (node) =>
      `    ${key(node.path)}) items=(${node.options.flatMap((option) => flagsOf(option).map((flag) => item(flag, option.description))).join(" ")}) ;;`,
  );
  const valueCases = nodes.flatMap((node) =>
    node.options.flatMap((option) => {
      const action = valueAction(option);
      return action === undefined
        ? []
        : [
            `    ${flagsOf(option)
              .map((flag) => key(`${node.path} ${flag}`))
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
  return `#compdef coral
# zsh completion of coral; use: source <(coral completion zsh), or save it as _coral in a directory of fpath
_coral() {
  local where="" pending="" count=0 i word current="\${words[CURRENT]}"
  local -a items
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
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
  if [[ -n $pending ]]; then
    case "$where $pending" in
${valueCases.join("\n")}
    esac
  elif [[ $current == -* ]]; then
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
  if (( \${#items} )); then _describe -o 'coral' items; fi
}
if [[ "\${funcstack[1]}" == "_coral" ]]; then
  _coral "$@"
else
  compdef _coral coral
fi
`;
}

function key(text: string): string {
  return `"${text}"`;
}

function item(name: string, description: string): string {
  return quoted(`${name.replaceAll(":", "\\:")}:${description}`, "'\\''");
}

function valueAction(spec: OptionSpec | ArgumentSpec): string | undefined {
  if (spec.choices) return `items=(${spec.choices.map((choice) => quoted(choice, "'\\''")).join(" ")})`;
  if (spec.completes === "files") return "_files";
  return spec.completes && `items=(\${(f)"$("\${words[1]}" __complete ${spec.completes} 2>/dev/null)"})`;
}
