/** From the name of a request, `SELECT * FROM orders WHERE id = ?`, to a statement that the server can plan. */

const explained = /^(?:select|insert|update|delete|with|values|merge)\b/i;

/** Null: not a statement with a plan, or its text was cut. */
export function postgresStatement(template: string): string | null {
  if (!explained.test(template) || template.endsWith("…")) return null;
  let parameters = 0;
  return template
    .replaceAll(/\binterval \?/gi, "INTERVAL '1 day'")
    .replaceAll(/\b(date|timestamp|timestamptz|time) \?/gi, "$1 '2000-01-01 00:00:00'")
    .replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (part) => (part === "?" ? `$${++parameters}` : part));
}

/** String constants: they fit columns of any type, and a number beside a text column would forbid its index. */
export function mysqlStatement(template: string): string | null {
  if (!explained.test(template) || /^(?:values|merge)\b/i.test(template) || template.endsWith("…")) return null;
  return template
    .replaceAll(/\b(limit|offset|interval) \?/gi, "$1 1")
    .replaceAll(/(\blimit 1, ?)\?/gi, "$11")
    .replaceAll(/'(?:[^']|'')*'|`[^`]*`|"(?:[^"]|"")*"|\?/g, (part) => (part === "?" ? "'1'" : part));
}
