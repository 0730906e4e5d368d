/**
 * Commands that call a tool. Arguments, options, defaults and help come from the tool's input schema, through tool-inputs.ts. The
 * command table adds only what a schema lacks: positional fields, short flags, and fields that the command sets itself.
 */

import type { InputField } from "../../tools/index.ts";
import type { ArgumentSpec, CommandSpec, OptionSpec } from "./command-spec.ts";
import { toolInputs } from "./tool-inputs.ts";

type ToolInputs = typeof toolInputs;
export type ToolName = keyof ToolInputs;

/** The TypeScript type of a field's value on the wire. Durations are strings such as `5m`. */
type ValueOf<Field> = Field extends { choices: readonly (infer Choice)[] }
  ? Choice
  : Field extends { type: "integer" }
    ? number
    : Field extends { type: "switch" }
      ? boolean
      : Field extends { type: "list" }
        ? readonly string[]
        : Field extends { type: "object" }
          ? object
          : string;

/** Input of a tool; its schema decides which fields are required. */
export type ToolInput<Name extends ToolName> = { -readonly [Field in keyof ToolInputs[Name]]?: ValueOf<ToolInputs[Name][Field]> };

type DurationsWithDefault<Name extends ToolName> = {
  [Field in keyof ToolInputs[Name]]: ToolInputs[Name][Field] extends { type: "duration"; default: string } ? Field : never;
}[keyof ToolInputs[Name]];

/** The part of the input that the command line provides. */
export type GivenInput<Name extends ToolName> = ToolInput<Name> & Record<DurationsWithDefault<Name>, string>;

/** How an option or argument differs from its field in the schema. */
type FieldChange = Partial<Pick<OptionSpec, "name" | "short" | "value" | "description" | "choices" | "completes">> & {
  /** null: the command applies its own default, stated in the description. */
  default?: string | null;
  /** Whether the argument must be given; default: as in the schema. */
  required?: boolean;
  /** Maximum, when the command accepts more than the tool returns in one call. */
  max?: number;
};

interface ToolCommandSpec<Name extends ToolName> extends Omit<CommandSpec, "arguments" | "commands" | "tool"> {
  tool: Name;
  /** Fields that are positional arguments, in order. */
  positional?: readonly (keyof ToolInputs[Name] & string)[];
  /** Fields without an option: set by the command, or not offered. */
  omit?: readonly (keyof ToolInputs[Name] & string)[];
  fields?: { [Field in keyof ToolInputs[Name]]?: FieldChange };
  /** Further options of the command. */
  options?: readonly OptionSpec[];
}

/** Source of one input field. */
export interface ToolFieldBinding {
  field: string;
  type: InputField["type"];
  /** Index of the positional argument; absent: the option of this name. */
  from: number | { option: string };
  default?: string;
  min?: number;
  max?: number;
}

/** Placeholders and completions of fields shared by all tools. */
const fieldLooks: Readonly<Record<string, FieldChange>> = {
  agent: { value: "agent", completes: "agents" },
  service: { value: "name", completes: "services" },
  peer: { value: "name", completes: "services" },
  traceId: { value: "id" },
};

/** Order: positional fields, then options in the order of the schema, then the command's own options. */
export function toolCommand<Name extends ToolName>(spec: ToolCommandSpec<Name>): CommandSpec {
  const { tool, positional = [], omit = [], fields = {}, options = [], ...command } = spec;
  const changes = fields as Readonly<Record<string, FieldChange>>;
  const inputs: Readonly<Record<string, InputField>> = toolInputs[tool];
  const shown = Object.entries(inputs)
    .filter(([name]) => !(omit as readonly string[]).includes(name))
    .map(([name, field]) => ({ name, field, change: { ...fieldLooks[name], ...changes[name] } }));
  const place = (name: string): number => (positional as readonly string[]).indexOf(name);
  const positionals = shown.filter(({ name }) => place(name) >= 0).sort((left, right) => place(left.name) - place(right.name));
  const optional = shown.filter(({ name }) => place(name) < 0);
  return {
    ...command,
    ...(positionals.length === 0 ? {} : { arguments: positionals.map(argumentOf) }),
    options: [...optional.map(optionOf), ...options],
    tool: shown.map((field) => bindingOf(field, place(field.name))),
  };
}

interface ShownField {
  name: string;
  field: InputField;
  change: FieldChange;
}

function argumentOf({ name, field, change }: ShownField): ArgumentSpec {
  const choices = change.choices ?? field.choices;
  return {
    name: change.name ?? kebabCase(name),
    description: descriptionOf(field, change),
    required: change.required ?? field.required === true,
    ...(choices === undefined ? {} : { choices }),
    ...(change.completes === undefined ? {} : { completes: change.completes }),
  };
}

function optionOf({ name, field, change }: ShownField): OptionSpec {
  const choices = change.choices ?? field.choices;
  const value = change.value ?? valueOf(name, field);
  const shownDefault = defaultOf(field, change);
  return {
    name: change.name ?? kebabCase(name),
    description: descriptionOf(field, change),
    ...(change.short === undefined ? {} : { short: change.short }),
    ...(value === undefined ? {} : { value }),
    ...(field.type === "list" ? { collects: true } : {}),
    ...(shownDefault === undefined ? {} : { default: shownDefault }),
    ...(choices === undefined ? {} : { choices }),
    ...(change.completes === undefined ? {} : { completes: change.completes }),
  };
}

/** Bounds are checked by the CLI as well, to fail before a connection is made and to name the flag instead of the field. */
function bindingOf({ name, field, change }: ShownField, place: number): ToolFieldBinding {
  const sent = field.type === "duration" ? defaultOf(field, change) : undefined;
  const max = change.max ?? field.max;
  return {
    field: name,
    type: field.type,
    from: place >= 0 ? place : { option: change.name ?? kebabCase(name) },
    ...(sent === undefined ? {} : { default: sent }),
    ...(field.min === undefined ? {} : { min: field.min }),
    ...(max === undefined ? {} : { max }),
  };
}

function defaultOf(field: InputField, change: FieldChange): string | undefined {
  if (change.default !== undefined) return change.default ?? undefined;
  return field.default === undefined ? undefined : String(field.default);
}

/** Schema descriptions start in lower case, for language models; help starts with a capital. */
function descriptionOf(field: InputField, change: FieldChange): string {
  const text = change.description ?? field.description ?? "";
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

function valueOf(name: string, field: InputField): string | undefined {
  switch (field.type) {
    case "switch":
      return undefined;
    case "integer":
      return "n";
    case "duration":
      return "duration";
    default:
      return field.choices === undefined ? "text" : kebabCase(name);
  }
}

/** Tool inputs are camelCase, flags kebab-case: `minDuration` → `--min-duration`. */
function kebabCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
