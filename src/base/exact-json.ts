/** A text, or a number with all that belongs to it: what looks like a number inside a text must be passed over. */
const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * `JSON.parse` for what programs sent: whole numbers that a double cannot hold (64-bit ids) become texts of the same digits, as in the JSON form of OTLP,
 * instead of other numbers. Throws `SyntaxError` for what is no JSON.
 */
export function parseExactJson(json: string): unknown {
  if (!/\d{16}/.test(json)) return JSON.parse(json);
  return JSON.parse(
    json.replace(tokens, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token)),
  );
}
