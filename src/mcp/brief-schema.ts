import { isJsonObject } from "../base/exact-json.ts";
import { commonInputs } from "../tools/index.ts";

/** Keywords that a model does not need: calls are validated against the full schema, and the error names the problem. */
const omittedKeywords: ReadonlySet<string> = new Set([
  "$schema",
  "additionalProperties",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "pattern",
]);

/** Descriptions that `briefSchema` drops from every tool; the server's instructions state them once. */
export const commonInstructions = Object.entries(commonInputs)
  .map(([name, description]) => `\`${name}\`: ${description}.`)
  .join(" ");

/** The schema without bounds and common descriptions, because the tool list occupies the model's context in every turn. */
export function briefSchema(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(schema).filter(([keyword, value]) => {
    if (omittedKeywords.has(keyword)) return false;
    // Choices imply the type, and a default of false adds nothing to an optional switch.
    return !(keyword === "type" && "enum" in schema) && !(keyword === "default" && value === false);
  });
  // Keys of `properties` are field names, which may equal keywords.
  return Object.fromEntries(
    kept.map(([keyword, value]) => [keyword, keyword === "properties" ? briefProperties(value) : briefValue(value)]),
  );
}

function briefProperties(properties: unknown): unknown {
  if (!isJsonObject(properties)) return properties;
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, withoutCommon(name, briefValue(value))]));
}

function withoutCommon(name: string, value: unknown): unknown {
  if (!isJsonObject(value) || value["description"] !== (commonInputs as Record<string, string>)[name]) return value;
  return Object.fromEntries(Object.entries(value).filter(([keyword]) => keyword !== "description"));
}

function briefValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(briefValue);
  return isJsonObject(value) ? briefSchema(value) : value;
}
