import type { ArgumentSpec, CommandSpec, OptionSpec } from "../run/command-spec.ts";

/** One place in the command tree, as completions see it. */
export interface CompletionNode {
  /** `/agent/list`; empty for the program itself. */
  path: string;
  commands: readonly { name: string; summary: string }[];
  options: readonly OptionSpec[];
  arguments: readonly ArgumentSpec[];
}

export function completionNodes(root: CommandSpec, globals: readonly OptionSpec[], path = ""): CompletionNode[] {
  const children = (root.commands ?? []).filter((command) => !command.hidden);
  const help: OptionSpec = { name: "help", short: "h", description: "Show help" };
  const node: CompletionNode = {
    path,
    commands: children.map(({ name, summary }) => ({ name, summary })),
    options: [...(root.options ?? []), ...globals, help],
    arguments: root.arguments ?? [],
  };
  return [node, ...children.flatMap((child) => completionNodes(child, globals, `${path}/${child.name}`))];
}

/** `--output`, `-o`: those that are followed by a value. A value that may be left out is not waited for. */
export function valueFlags(nodes: readonly CompletionNode[]): string[] {
  const options = nodes.flatMap((node) => node.options).filter((option) => option.value !== undefined && !option.valueOptional);
  return [...new Set(options.flatMap(flagsOf))].sort();
}

export function flagsOf(option: OptionSpec): string[] {
  return option.short === undefined ? [`--${option.name}`] : [`--${option.name}`, `-${option.short}`];
}

/** Pattern of bash and zsh for the place of an argument; words after a variadic one are its own, too. */
export function argumentPattern(path: string, argument: ArgumentSpec, index: number): string {
  return argument.variadic ? `"${path} "*` : `"${path} ${index}"`;
}

/** Within single quotes of any of the three shells. */
export function quoted(text: string, escape: string): string {
  return `'${text.replaceAll("'", escape)}'`;
}
