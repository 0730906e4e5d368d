import { CoralError } from "../../base/errors.ts";
import type { AttributeFilter } from "../../model/traces.ts";

/** Longer operators first: `>=` is not `>` of `=…`. */
const form = /^\s*([^\s=!<>~]+)\s*(!=|>=|<=|!~|=~|==|=|>|<|~)\s*(.*)$/s;
const sameAs: Record<string, AttributeFilter["operator"]> = { "=~": "~", "==": "=" };

/** `http.status_code>=500`, `user.id=42`, `url.full~/cart`. Quotes around the value are removed. */
export function parseAttributeFilter(text: string): AttributeFilter {
  const [, name, operator = "", value = ""] = form.exec(text) ?? [];
  if (name === undefined)
    throw new CoralError({
      code: "invalid",
      message: `Cannot filter by "${text.slice(0, 80)}": write an attribute, one of = != > >= < <= ~ !~ and a value, such as http.status_code>=500`,
    });
  const quoted = /^"(.*)"$|^'(.*)'$/s.exec(value.trim());
  return {
    name,
    operator: sameAs[operator] ?? (operator as AttributeFilter["operator"]),
    value: quoted?.[1] ?? quoted?.[2] ?? value.trim(),
  };
}
