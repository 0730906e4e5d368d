/** Inspects a config schema: its keys for the docs, the allowed keys at a path for error messages. Does not import zod at run time. */

import type * as z from "zod";
import type { KeyMeta } from "./schema-parts.ts";

/** One line of docs/config.md. */
export interface ConfigKey {
  /** Dotted: `log.level`. */
  path: string;
  kind: string;
  description: string;
  /** As written in YAML; absent when there is none. */
  default?: string;
  required: boolean;
}

interface Unwrapped {
  schema: z.core.$ZodType;
  meta: KeyMeta | undefined;
  default: unknown;
  optional: boolean;
}

/** Every key that holds a value, in the order of the schema. */
export function describeKeys(schema: z.core.$ZodType, prefix = ""): ConfigKey[] {
  const keys: ConfigKey[] = [];
  for (const [name, child] of Object.entries(shapeOf(schema) ?? {})) {
    const path = prefix + name;
    const inner = unwrap(child);
    if (shapeOf(inner.schema) && inner.meta === undefined) {
      keys.push(...describeKeys(inner.schema, `${path}.`));
      continue;
    }
    const hasDefault = inner.default !== undefined;
    keys.push({
      path,
      kind: inner.meta?.kind ?? "text",
      description: inner.meta?.description ?? "",
      ...(hasDefault ? { default: typeof inner.default === "string" ? inner.default : JSON.stringify(inner.default) } : {}),
      required: !hasDefault && !inner.optional,
    });
  }
  return keys;
}

/** `values` in the form of the file, with every default filled in. */
export function withDefaults(schema: z.core.$ZodType, values: unknown): Record<string, unknown> {
  const given = typeof values === "object" && values !== null ? (values as Record<string, unknown>) : {};
  const filled: Record<string, unknown> = {};
  for (const [name, child] of Object.entries(shapeOf(unwrap(schema).schema) ?? {})) {
    const inner = unwrap(child);
    if (shapeOf(inner.schema) && inner.meta === undefined) filled[name] = withDefaults(inner.schema, given[name]);
    else if ((given[name] ?? inner.default) !== undefined) filled[name] = given[name] ?? inner.default;
  }
  return filled;
}

/** The schema at a key path; undefined if there is none. */
export function schemaAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): z.core.$ZodType | undefined {
  let current = unwrap(schema).schema;
  for (const segment of path) {
    const def = definitionOf(current);
    const next = def.type === "array" ? def.element : def.type === "record" ? def.valueType : shapeOf(current)?.[String(segment)];
    if (!next) return undefined;
    current = unwrap(next).schema;
  }
  return current;
}

/** Keys allowed under a path; empty when it is not a section. */
export function allowedKeys(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[] {
  const at = schemaAt(schema, path);
  return at ? Object.keys(shapeOf(at) ?? {}) : [];
}

type Definition = z.core.$ZodTypeDef & {
  innerType?: z.core.$ZodType;
  in?: z.core.$ZodType;
  element?: z.core.$ZodType;
  valueType?: z.core.$ZodType;
  shape?: Record<string, z.core.$ZodType>;
  defaultValue?: unknown;
};

function definitionOf(schema: z.core.$ZodType): Definition {
  return schema._zod.def;
}

function shapeOf(schema: z.core.$ZodType): Record<string, z.core.$ZodType> | undefined {
  const def = definitionOf(schema);
  return def.type === "object" ? def.shape : undefined;
}

function unwrap(schema: z.core.$ZodType): Unwrapped {
  const found: Unwrapped = { schema, meta: metaOf(schema), default: undefined, optional: false };
  for (;;) {
    const def = definitionOf(found.schema);
    if (def.type === "prefault" || def.type === "default") found.default ??= def.defaultValue;
    if (def.type === "optional") found.optional = true;
    const next = def.innerType ?? (def.type === "pipe" ? def.in : undefined);
    if (!next) return found;
    found.schema = next;
    found.meta ??= metaOf(next);
  }
}

function metaOf(schema: z.core.$ZodType): KeyMeta | undefined {
  const read = (schema as { meta?: () => unknown }).meta;
  return read?.call(schema) as KeyMeta | undefined;
}
