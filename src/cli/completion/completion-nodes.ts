import type { ArgumentSpec, CommandSpec, OptionSpec } from "../run/command-spec.ts";

/** One command or group, as completions need it. */
export interface CompletionNode {
  /** `/agent/list`; empty for the program itself. */
  path: string;
  commands: readonly { name: string; summary: string }[];
  options: readonly OptionSpec[];
  arguments: readonly ArgumentSpec[];
}

/** Flattens the command tree, hidden commands excluded. Every node repeats the global options. */
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

/** Flags that need a value: `--output`, `-o`. An optional value does not count: the next word may be an argument. */
export function valueFlags(nodes: readonly CompletionNode[]): string[] {
  const options = nodes.flatMap((node) => node.options).filter((option) => option.value !== undefined && !option.valueOptional);
  return [...new Set(options.flatMap(flagsOf))].sort();
}

export function flagsOf(option: OptionSpec): string[] {
  return option.short === undefined ? [`--${option.name}`] : [`--${option.name}`, `-${option.short}`];
}

/** Shell pattern for the position of an argument; a variadic one also matches every later position. */
export function argumentPattern(path: string, argument: ArgumentSpec, index: number): string {
  return argument.variadic ? `"${path} "*` : `"${path} ${index}"`;
}

/** Quotes for all three shells, in single quotes. */
export function quoted(text: string, escape: string): string {
  return `'${text.replaceAll("'", escape)}'`;
}
