/** Reads a config with its overrides: flags > environment > file > defaults. Errors carry the position. */

import type * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { type ConfigProblem, problemsOf, unknownName } from "./config-problem.ts";
import { withDefaults } from "./describe-schema.ts";
import { readYamlFile, type YamlFile } from "./yaml-file.ts";

/** A value from a flag or an environment variable. */
export interface ConfigOverride {
  /** `CORAL_LOG_LEVEL` or `--log-level`; named in errors. */
  source: string;
  path: readonly string[];
  value: string;
}

export interface LoadedConfig<T> {
  config: T;
  /** The same in the form of the file, defaults included: `{ pull: { interval: "5s" } }`. */
  values: Record<string, unknown>;
  /** The file that was read; undefined if there is none and the defaults apply. */
  file: string | undefined;
}

export interface LoadConfigOptions<S extends z.ZodType> {
  /** For messages: `agent config`. */
  what: string;
  file: string;
  /** Whether a missing file is an error. */
  required: boolean;
  schema: S;
  overrides?: readonly ConfigOverride[];
  /** Names that a free-form section may use, by the section's top-level key. */
  allowedRecordKeys?: Readonly<Record<string, readonly string[]>>;
}

export async function loadConfig<S extends z.ZodType>(options: LoadConfigOptions<S>): Promise<LoadedConfig<z.output<S>>> {
  const file = await readYamlFile(options.file, options.what);
  if (!file && options.required) {
    throw new CoralError({
      code: "not-found",
      message: `Cannot read ${options.what} "${options.file}": no such file`,
      details: { file: options.file },
    });
  }
  const value = file?.value ?? {};
  const fromFile = options.schema.safeParse(value);
  const problems = [
    ...(fromFile.success ? [] : problemsOf(fromFile.error.issues, options.schema, value)),
    ...unknownRecordKeys(value, options),
  ];
  if (problems.length > 0 && file) throw fileError(options.what, file, problems);

  const overrides = options.overrides ?? [];
  const merged = overrides.reduce<unknown>((current, override) => withValue(current, override.path, override.value), value);
  const result = options.schema.safeParse(merged);
  if (!result.success) throw overrideError(options, problemsOf(result.error.issues, options.schema, merged));
  return { config: result.data, values: withDefaults(options.schema, merged), file: file ? options.file : undefined };
}

export function environmentOverrides(
  env: Readonly<Record<string, string | undefined>>,
  variables: readonly { variable: string; key: string }[],
): ConfigOverride[] {
  return flagOverrides(variables.map(({ variable, key }) => [variable, key, env[variable] || undefined]));
}

/** Tuples of source, dotted key and value; those without a value are dropped. */
export function flagOverrides(entries: readonly (readonly [source: string, key: string, value: string | undefined])[]): ConfigOverride[] {
  return entries.flatMap(([source, key, value]) => (value === undefined ? [] : [{ source, path: key.split("."), value }]));
}

function unknownRecordKeys<S extends z.ZodType>(value: unknown, options: LoadConfigOptions<S>): ConfigProblem[] {
  return Object.entries(options.allowedRecordKeys ?? {}).flatMap(([section, names]) => {
    const record = (value as Record<string, unknown>)[section];
    if (record === null || typeof record !== "object") return [];
    return Object.keys(record)
      .filter((name) => !names.includes(name))
      .map((name) => unknownName([section, name], names));
  });
}

function fileError(what: string, file: YamlFile, problems: readonly ConfigProblem[]): CoralError {
  const placed = problems
    .map((problem) => ({
      ...file.positionOf(problem.path, problem.at),
      key: problem.key,
      message: problem.message,
      allowed: problem.allowed,
    }))
    .sort((a, b) => a.line - b.line || a.column - b.column);
  const first = placed[0];
  const rest = placed.length > 1 ? ` (and ${placed.length - 1} more; "coral config validate ${file.path}" lists them)` : "";
  return new CoralError({
    code: "invalid",
    message: `Cannot read ${what} "${file.path}": line ${first?.line}, column ${first?.column}: ${first?.message}${rest}`,
    details: { file: file.path, problems: placed },
  });
}

function overrideError<S extends z.ZodType>(options: LoadConfigOptions<S>, problems: readonly ConfigProblem[]): CoralError {
  const problem = problems[0];
  // The later override wins, so the error names it when two set the same key.
  const override = options.overrides?.findLast((candidate) => candidate.path.join(".") === problem?.key);
  if (override && problem) {
    const allowed = problem.allowed === undefined ? {} : { allowed: problem.allowed };
    return new CoralError({
      code: "usage",
      message: `Cannot use ${override.source}: ${problem.message}`,
      details: { source: override.source, ...allowed },
    });
  }
  return new CoralError({ code: "invalid", message: `Cannot use ${options.what}: ${problem?.message}`, details: { problems } });
}

function withValue(target: unknown, path: readonly string[], value: string): unknown {
  const [head, ...rest] = path;
  if (head === undefined) return value;
  const object = typeof target === "object" && target !== null && !Array.isArray(target) ? (target as Record<string, unknown>) : {};
  return { ...object, [head]: withValue(object[head], rest, value) };
}
