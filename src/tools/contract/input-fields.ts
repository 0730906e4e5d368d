import * as z from "zod";
import { isDurationInput } from "./duration-input.ts";

/** One field of a tool's input, as a command line needs it. */
export interface InputField {
  type: "text" | "integer" | "switch" | "duration" | "list" | "object";
  description?: string;
  choices?: readonly string[];
  default?: string | number;
  /** Bounds of an integer. */
  min?: number;
  max?: number;
  required?: true;
}

interface FieldJson {
  type?: string;
  description?: string;
  enum?: string[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
}

/** `json` is the JSON schema of `schema`. It lacks only which strings are durations. */
export function inputFieldsOf(schema: z.ZodObject, json: Readonly<Record<string, unknown>>): Record<string, InputField> {
  const properties = (json["properties"] ?? {}) as Record<string, FieldJson>;
  const required = new Set((json["required"] ?? []) as string[]);
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => [name, inputFieldOf(field, schema.shape[name], required.has(name))]),
  );
}

function inputFieldOf(json: FieldJson, schema: z.core.$ZodType | undefined, isRequired: boolean): InputField {
  const type = isDurationInput(innermost(schema)) ? "duration" : typeOf(json.type);
  const { description, minimum: min, maximum: max, enum: choices } = json;
  return {
    type,
    ...(description === undefined ? {} : { description }),
    ...(choices === undefined ? {} : { choices }),
    ...(typeof json.default === "number" || (typeof json.default === "string" && json.default !== "") ? { default: json.default } : {}),
    ...(type === "integer" && min !== undefined && max !== undefined ? { min, max } : {}),
    ...(isRequired ? { required: true } : {}),
  };
}

function typeOf(type: string | undefined): InputField["type"] {
  switch (type) {
    case "string":
      return "text";
    case "integer":
      return "integer";
    case "boolean":
      return "switch";
    case "array":
      return "list";
    default:
      return "object";
  }
}

/** Unwraps optional(), default() and prefault(). */
function innermost(schema: z.core.$ZodType | undefined): z.core.$ZodType | undefined {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)
    return innermost(schema.def.innerType);
  return schema;
}
