/** A string, or a number with sign, fraction and exponent. Digits inside a string must be skipped. */
const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * `JSON.parse` for input from programs. Integers that a double cannot represent (64-bit ids) become strings of the same digits, as in
 * OTLP/JSON, instead of rounded numbers. Throws `SyntaxError` for invalid JSON.
 */
export function parseExactJson(json: string): unknown {
  if (!/\d{16}/.test(json)) return JSON.parse(json);
  return JSON.parse(
    json.replace(tokens, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token)),
  );
}

/** Of what `JSON.parse` returns: neither an array nor null. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
