/** Shell code shared by the bash and zsh completions: `case` statements find the current command and its candidates. */

import type { ArgumentSpec, OptionSpec } from "../run/command-spec.ts";
import { argumentPattern, type CompletionNode, flagsOf, valueFlags } from "./completion-nodes.ts";

/** Shell code that sets the candidates; undefined where there are none. */
export interface Offers {
  commands: (node: CompletionNode) => string | undefined;
  flags: (node: CompletionNode) => string;
  values: (spec: OptionSpec | ArgumentSpec) => string | undefined;
}

/** Body of a loop over the words before the current one. Maintains `where`, `count`, and `pending`, the flag whose value follows. */
export function stepCases(nodes: readonly CompletionNode[]): string {
  const paths = nodes.map((node) => node.path).filter((path) => path !== "");
  return `    if [[ -n $pending ]]; then pending=""; continue; fi
    case "$word" in
    ${valueFlags(nodes).join("|")}) pending="$word" ;;
    -*) ;;
    *)
      case "$where/$word" in
      ${paths.join("|")}) where="$where/$word" ;;
      *) count=$((count + 1)) ;;
      esac
      ;;
    esac`;
}

/** Sets the candidates for the current position; `current` is the variable with the text typed so far. */
export function offerCases(nodes: readonly CompletionNode[], current: string, offers: Offers): string {
  return `  if [[ -n $pending ]]; then
    case "$where $pending" in
${valueCases(nodes, offers).join("\n")}
    esac
  elif [[ $${current} == -* ]]; then
    case "$where" in
${nodes.flatMap((node) => caseOf(`"${node.path}"`, offers.flags(node))).join("\n")}
    esac
  else
    case "$where" in
${nodes.flatMap((node) => caseOf(`"${node.path}"`, offers.commands(node))).join("\n")}
    esac
    case "$where $count" in
${argumentCases(nodes, offers).join("\n")}
    esac
  fi`;
}

/** One case per command and option; long and short flag share it. */
function valueCases(nodes: readonly CompletionNode[], { values }: Offers): string[] {
  return nodes.flatMap(({ path, options }) =>
    options.flatMap((option) => {
      const places = flagsOf(option).map((flag) => `"${path} ${flag}"`);
      return caseOf(places.join("|"), values(option));
    }),
  );
}

function argumentCases(nodes: readonly CompletionNode[], { values }: Offers): string[] {
  return nodes.flatMap((node) =>
    node.arguments.flatMap((argument, index) => caseOf(argumentPattern(node.path, argument, index), values(argument))),
  );
}

function caseOf(pattern: string, action: string | undefined): string[] {
  return action === undefined ? [] : [`    ${pattern}) ${action} ;;`];
}
