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

/** Properties of many tools, which are explained once, to all of them. */
const commonProperties: Readonly<Record<string, string>> = {
  since: "how far back: 5m, 2h, 7d",
  agent: "agent id or host name",
};

/** What the list of tools leaves out because of `briefSchema`. */
export const commonInstructions = Object.entries(commonProperties)
  .map(([name, description]) => `\`${name}\`: ${description}.`)
  .join(" ");

/** The same schema without its bounds: the list of tools is in a model's context in every turn. Properties may have any name. */
export function briefSchema(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(schema).filter(([word, value]) => {
    if (leftOut.has(word)) return false;
    // A list of choices tells its type, and what is false unless given is optional in any case.
    return !(word === "type" && "enum" in schema) && !(word === "default" && value === false);
  });
  return Object.fromEntries(kept.map(([word, value]) => [word, word === "properties" ? eachOf(value) : briefValue(value)]));
}

function eachOf(properties: unknown): unknown {
  if (!isObject(properties)) return properties;
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, withoutCommon(name, briefValue(value))]));
}

function withoutCommon(name: string, value: unknown): unknown {
  if (!isObject(value) || value["description"] !== commonProperties[name]) return value;
  return Object.fromEntries(Object.entries(value).filter(([word]) => word !== "description"));
}

function briefValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(briefValue);
  return isObject(value) ? briefSchema(value) : value;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
