/** Words of a schema that a model does not need to call a tool: calls are checked against the whole one, and the error says what was wrong. */
const leftOut: ReadonlySet<string> = new Set([
  "$schema",
  "additionalProperties",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "pattern",
]);

/** The same schema without its bounds: the list of tools is in a model's context in every turn. Properties may have any name. */
export function briefSchema(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(schema).filter(([word]) => !leftOut.has(word));
  return Object.fromEntries(kept.map(([word, value]) => [word, word === "properties" ? eachOf(value) : briefValue(value)]));
}

function eachOf(properties: unknown): unknown {
  if (!isObject(properties)) return properties;
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, briefValue(value)]));
}

function briefValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(briefValue);
  return isObject(value) ? briefSchema(value) : value;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
