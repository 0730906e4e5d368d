/** Building blocks of config schemas. Each leaf carries a description and a type name, used by docs and errors. */

import * as z from "zod";
import { logLevels } from "../../base/log.ts";
import { formatBytes, formatDurationMs, parseDurationMs, parseSizeBytes } from "../../base/units.ts";
import { type ListenAddress, parseListenAddress } from "./listen-address.ts";

/** What `.meta()` holds on every leaf. */
export interface KeyMeta {
  /** For people: `duration`, `size`, `text`, `number`, `address`. */
  kind: string;
  description: string;
}

interface Range {
  min?: string;
  max?: string;
}

/** Runs a parser that throws CoralError `invalid` inside zod and keeps only the reason after the colon. */
function parsed<T>(context: z.RefinementCtx<string>, parse: () => T): T | typeof z.NEVER {
  try {
    return parse();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    context.issues.push({ code: "custom", message: message.slice(message.indexOf(": ") + 2), input: context.value });
    return z.NEVER;
  }
}

function inRange(
  context: z.RefinementCtx<string>,
  value: number,
  range: Range,
  parse: (text: string) => number,
  format: (value: number) => string,
): number {
  const tooSmall = range.min !== undefined && value < parse(range.min);
  const tooLarge = range.max !== undefined && value > parse(range.max);
  if (tooSmall || tooLarge) {
    const bounds = [range.min && `at least ${format(parse(range.min))}`, range.max && `at most ${format(parse(range.max))}`]
      .filter(Boolean)
      .join(" and ");
    context.issues.push({ code: "custom", message: `it must be ${bounds}`, input: context.value });
  }
  return value;
}

/** `30s` → milliseconds. */
export function duration(description: string, range: Range = {}) {
  return z
    .string({ error: "write a duration with a unit, such as 250ms, 30s, 5m, 2h or 7d" })
    .transform((text, context) => {
      const valueMs = parsed(context, () => parseDurationMs(text));
      return valueMs === z.NEVER ? valueMs : inRange(context, valueMs, range, parseDurationMs, formatDurationMs);
    })
    .meta({ kind: "duration", description } satisfies KeyMeta);
}

/** `256MiB` → bytes. */
export function size(description: string, range: Range = {}) {
  return z
    .string({ error: "write a size with a unit, such as 64KiB, 256MiB or 2GiB" })
    .transform((text, context) => {
      const valueBytes = parsed(context, () => parseSizeBytes(text));
      return valueBytes === z.NEVER ? valueBytes : inRange(context, valueBytes, range, parseSizeBytes, formatBytes);
    })
    .meta({ kind: "size", description } satisfies KeyMeta);
}

/** `127.0.0.1:9000` → host and port. */
export function listenAddress(description: string) {
  return z
    .union([z.string(), z.number().transform(String)], { error: "write host:port, such as 127.0.0.1:9000" })
    .transform((text, context): ListenAddress => parsed(context, () => parseListenAddress(text)))
    .meta({ kind: "address", description } satisfies KeyMeta);
}

export function text(description: string, pattern?: { expression: RegExp; message: string }) {
  const schema = z.string({
    error: (issue) =>
      typeof issue.input === "number" || typeof issue.input === "boolean" ? "write text; put the value in quotes" : "write text",
  });
  const checked = pattern ? schema.regex(pattern.expression, pattern.message) : schema.min(1, "it must not be empty");
  return checked.meta({ kind: "text", description } satisfies KeyMeta);
}

export function integer(description: string, min: number, max: number) {
  const message = `write a whole number from ${min} to ${max}`;
  return z
    .int({ error: message })
    .min(min, message)
    .max(max, message)
    .meta({ kind: "number", description } satisfies KeyMeta);
}

export function flag(description: string) {
  return z.boolean({ error: "write true or false" }).meta({ kind: "true | false", description } satisfies KeyMeta);
}

/** `1%`, `2.5 %` → 0.01, 0.025. */
export function percentage(description: string, min: number, max: number) {
  return z
    .string({ error: "write a percentage, such as 1%" })
    .regex(/^\d{1,3}(?:\.\d{1,3})?\s?%$/, "write a percentage, such as 1%")
    .transform((share) => Number.parseFloat(share) / 100)
    .refine((share) => share >= min && share <= max, `it must be at least ${min * 100}% and at most ${max * 100}%`)
    .meta({ kind: "percent", description } satisfies KeyMeta);
}

export function oneOf<const T extends readonly [string, ...string[]]>(description: string, values: T) {
  return z.enum(values).meta({ kind: values.join(" | "), description } satisfies KeyMeta);
}

/** The `log` section, the same for every daemon. */
export const logSection = z
  .strictObject({
    level: oneOf("Minimum level of log lines", logLevels).prefault("info"),
    format: oneOf("Log format; auto is text on a terminal and json elsewhere", ["auto", "json", "text"]).prefault("auto"),
  })
  .prefault({});

/** An optional section, which may be empty: `log:` with nothing under it is null in YAML. */
export function section<T extends z.ZodRawShape>(shape: T) {
  return z.strictObject(shape).prefault({} as z.input<z.ZodObject<T, z.core.$strict>>);
}
