/** Turns schema issues into messages: position, key, value, and what is allowed. */

import type * as z from "zod";
import { closest } from "../../base/closest.ts";
import { allowedKeys, describeKeys, schemaAt } from "./describe-schema.ts";

export interface ConfigProblem {
  /** Dotted key path; empty for the file as a whole. */
  key: string;
  /** Complete, without the position: `log.level is "loud"; allowed values: debug, info`. */
  message: string;
  /** Allowed keys or values, if they can be listed. */
  allowed?: string[];
  path: readonly PropertyKey[];
  /** Whether the key or its value is invalid. */
  at: "key" | "value";
}

export function problemsOf(issues: readonly z.core.$ZodIssue[], schema: z.core.$ZodType, value: unknown): ConfigProblem[] {
  return issues.flatMap((issue) => {
    if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownKey([...issue.path, key], schema));
    return [describeIssue(issue, schema, valueAt(value, issue.path))];
  });
}

/** For names that the schema itself cannot know, such as signals. */
export function unknownName(path: readonly PropertyKey[], names: readonly string[]): ConfigProblem {
  const name = String(path.at(-1));
  const near = closest(name, names);
  const parent = path.slice(0, -1).map(String);
  const hint = near === undefined ? "" : `; did you mean "${[...parent, near].join(".")}"?`;
  return {
    key: dotted(path),
    message: `unknown key "${dotted(path)}"${hint || ";"} allowed keys: ${names.join(", ")}`,
    allowed: [...names],
    path,
    at: "key",
  };
}

function unknownKey(path: readonly PropertyKey[], schema: z.core.$ZodType): ConfigProblem {
  const parent = path.slice(0, -1);
  const names = allowedKeys(schema, parent);
  const name = String(path.at(-1));
  if (closest(name, names) === undefined) {
    // Right key, wrong section: `level` at the top belongs under `log`.
    const elsewhere = describeKeys(schema).find((key) => key.path.split(".").at(-1) === name);
    if (elsewhere) {
      const message = `unknown key "${dotted(path)}"; did you mean "${elsewhere.path}"? allowed keys: ${names.join(", ")}`;
      return { key: dotted(path), message, allowed: names, path, at: "key" };
    }
  }
  return unknownName(path, names);
}

function describeIssue(issue: z.core.$ZodIssue, schema: z.core.$ZodType, value: unknown): ConfigProblem {
  const key = dotted(issue.path);
  const base = { key, path: issue.path, at: "value" as const };
  if (issue.code === "invalid_key") {
    const inner = issue.issues[0]?.message ?? "the name is not allowed";
    return { ...base, at: "key", message: `key "${key}" is not allowed: ${inner}` };
  }
  if (value === undefined && issue.code === "custom") return { ...base, message: `${key} has its default: ${issue.message}` };
  if (value === undefined) {
    const description = key === "" ? undefined : describeKeys(schema).find((item) => item.path === key)?.description;
    return { ...base, message: `key "${key}" is missing${description ? `: ${description}` : ""}` };
  }
  const subject = key === "" ? "the file" : key;
  if (issue.code === "invalid_value") {
    const allowed = issue.values.map(String);
    const near = typeof value === "string" ? closest(value, allowed) : undefined;
    return {
      ...base,
      message: `${subject} is ${shown(value)}${near ? `; did you mean "${near}"?` : ";"} allowed values: ${allowed.join(", ")}`,
      allowed,
    };
  }
  const names = allowedKeys(schema, issue.path);
  if (issue.code === "invalid_type" && names.length > 0) {
    return { ...base, message: `${subject} is ${shown(value)}; write keys under it: ${names.join(", ")}`, allowed: names };
  }
  if (issue.code === "invalid_type" && schemaAt(schema, issue.path)?._zod.def.type === "record") {
    return { ...base, message: `${subject} is ${shown(value)}; write "name: value" lines under it` };
  }
  if (issue.code === "invalid_type" && issue.expected === "array")
    return { ...base, message: `${subject} is ${shown(value)}; write a list` };
  return { ...base, message: `${subject} is ${shown(value)}; ${issue.message}` };
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let current = value;
  for (const segment of path) {
    if (current === null || typeof current !== "object") return undefined;
    current = (current as Record<PropertyKey, unknown>)[segment];
  }
  return current;
}

const maxShownCharacters = 60;

function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "a group of keys";
  const text = JSON.stringify(value) ?? String(value);
  return text.length > maxShownCharacters ? `${text.slice(0, maxShownCharacters)}…` : text;
}

function dotted(path: readonly PropertyKey[]): string {
  return path.map(String).join(".");
}
