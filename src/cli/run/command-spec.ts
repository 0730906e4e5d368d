/** Types of the command table, the source of parser, help, docs/cli.md and shell completions. */

import type { Invocation } from "./invocation.ts";
import type { ToolFieldBinding } from "./tool-command.ts";

/** Values that shells complete with `coral __complete <kind>`. */
export type CompletionKind = "contexts" | "agents" | "colonies" | "tools" | "files" | "services" | "managed-services";

export interface ArgumentSpec {
  name: string;
  description: string;
  required: boolean;
  /** Consumes all remaining arguments; only the last one may be variadic. */
  variadic?: boolean;
  choices?: readonly string[];
  completes?: CompletionKind;
}

export interface OptionSpec {
  /** Without dashes: `log-level`. */
  name: string;
  short?: string;
  /** Placeholder of the value, such as `duration`; a switch has none. */
  value?: string;
  /** Whether the value is optional. */
  valueOptional?: boolean;
  /** Repeatable, and takes several values at once. */
  repeats?: boolean;
  /** Repeatable with one value each, so that the next word is an argument. */
  collects?: boolean;
  description: string;
  /** Displayed in help; the command applies the default. */
  default?: string;
  choices?: readonly string[];
  completes?: CompletionKind;
}

/** `<name>`, `[name...]`: an argument in help and docs. */
export function argumentForm({ name, required, variadic }: ArgumentSpec): string {
  const words = variadic ? `${name}...` : name;
  return required ? `<${words}>` : `[${words}]`;
}

/** `-o, --output <format>`: an option in help and docs. */
export function optionForm({ name, short, value, valueOptional, repeats }: OptionSpec): string {
  const words = repeats ? `${value}...` : value;
  const shown = value === undefined ? "" : valueOptional ? ` [${words}]` : ` <${words}>`;
  return `${short ? `-${short}, ` : ""}--${name}${shown}`;
}

/** What a command's file exports. */
export interface CommandModule {
  run(invocation: Invocation): Promise<void>;
}

export interface CommandSpec {
  name: string;
  summary: string;
  /** Help text after the summary. */
  description?: string;
  arguments?: readonly ArgumentSpec[];
  options?: readonly OptionSpec[];
  /** A command line and what it does. */
  examples?: readonly (readonly [command: string, what: string])[];
  /** Heading in the help of the whole program. */
  group?: string;
  /** Hidden from help and docs. */
  hidden?: boolean;
  commands?: readonly CommandSpec[];
  /** Sources of the tool's input fields; set by toolCommand(). */
  tool?: readonly ToolFieldBinding[];
  /** Absent for groups. */
  load?: () => Promise<CommandModule>;
}
