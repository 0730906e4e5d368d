/** The types of the command table, from which the parser, the help, docs/cli.md and the shell completions are made. */

import type { Invocation } from "./invocation.ts";
import type { ToolFieldBinding } from "./tool-command.ts";

/** Values that a shell completes by asking `coral __complete <kind>`. */
export type CompletionKind = "contexts" | "agents" | "colonies" | "tools" | "files" | "services" | "managed-services";

export interface ArgumentSpec {
  name: string;
  description: string;
  required: boolean;
  /** Takes all remaining arguments; only the last one may be variadic. */
  variadic?: boolean;
  choices?: readonly string[];
  completes?: CompletionKind;
}

export interface OptionSpec {
  /** Without dashes: `log-level`. */
  name: string;
  short?: string;
  /** Placeholder of its value, such as `duration`; without one the option is a switch. */
  value?: string;
  /** Whether the value may be left out. */
  valueOptional?: boolean;
  /** Whether it may be repeated, or take several values at once. */
  repeats?: boolean;
  /** Whether it may be repeated with one value each, so that what follows a value is an argument. */
  collects?: boolean;
  description: string;
  /** Shown in help; the command applies it. */
  default?: string;
  choices?: readonly string[];
  completes?: CompletionKind;
}

/** `<name>`, `[name...]`: as help and docs write an argument. */
export function argumentForm({ name, required, variadic }: ArgumentSpec): string {
  const words = variadic ? `${name}...` : name;
  return required ? `<${words}>` : `[${words}]`;
}

/** `-o, --output <format>`: as help and docs write an option. */
export function optionForm({ name, short, value, valueOptional, repeats }: OptionSpec): string {
  const words = repeats ? `${value}...` : value;
  const shown = value === undefined ? "" : valueOptional ? ` [${words}]` : ` <${words}>`;
  return `${short ? `-${short}, ` : ""}--${name}${shown}`;
}

export interface CommandModule {
  run(invocation: Invocation): Promise<void>;
}

export interface CommandSpec {
  name: string;
  summary: string;
  /** Longer text of the help, after the summary. */
  description?: string;
  arguments?: readonly ArgumentSpec[];
  options?: readonly OptionSpec[];
  /** A command line and what it does. */
  examples?: readonly (readonly [command: string, what: string])[];
  /** Heading in the help of the whole program. */
  group?: string;
  /** Not in help and docs. */
  hidden?: boolean;
  commands?: readonly CommandSpec[];
  /** Where the input of the command's tool comes from; set by toolCommand(). */
  tool?: readonly ToolFieldBinding[];
  /** Absent for groups. */
  load?: () => Promise<CommandModule>;
}
