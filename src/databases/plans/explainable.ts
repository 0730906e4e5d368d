/** Converts a request name such as `SELECT * FROM orders WHERE id = ?` to a statement that the server can plan. */

const explained = /^(?:select|insert|update|delete|with|values|merge)\b/i;

/** Null for a statement without a plan, or a truncated text. */
export function postgresStatement(template: string): string | null {
  if (!explained.test(template) || template.endsWith("…")) return null;
  let parameters = 0;
  return template
    .replaceAll(/\binterval \?/gi, "INTERVAL '1 day'")
    .replaceAll(/\b(date|timestamp|timestamptz|time) \?/gi, "$1 '2000-01-01 00:00:00'")
    .replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (part) => (part === "?" ? `$${++parameters}` : part));
}

/** Uses string constants: they match columns of any type, while a number compared with a text column would prevent index use. */
export function mysqlStatement(template: string): string | null {
  if (!explained.test(template) || /^(?:values|merge)\b/i.test(template) || template.endsWith("…")) return null;
  return template
    .replaceAll(/\b(limit|offset|interval) \?/gi, "$1 1")
    .replaceAll(/(\blimit 1, ?)\?/gi, "$11")
    .replaceAll(/'(?:[^']|'')*'|`[^`]*`|"(?:[^"]|"")*"|\?/g, (part) => (part === "?" ? "'1'" : part));
}
