/**
 * Attribute filters of spans as SQL conditions over `span`: on columns where an attribute has one, on JSON for other attributes and for
 * those of the resource.
 */

import { CoralError } from "../../base/errors.ts";
import type { AttributeFilter } from "../../model/traces.ts";
import { span } from "../signals/span.ts";
import { promotedInt, promotedText } from "../signals/span-attributes.ts";
import type { Queryable } from "../tables/queryable.ts";

interface Condition {
  sql: string;
  parameters: (string | number)[];
}

const columns = new Map<string, string>(
  [...Object.entries(promotedText), ...Object.entries(promotedInt)].flatMap(([column, keys]) => keys.map((key) => [key, column] as const)),
);
/** Columns that hold no attribute, usable under their own name. */
const plainColumns: ReadonlySet<string> = new Set(
  Object.entries(span.columns)
    .filter(
      ([name, type]) => /^(?:text|int32)/.test(type) && !["attributes", "events", "links", "resource", "scope_attributes"].includes(name),
    )
    .map(([name]) => name),
);

/** A span without the attribute matches no operator, not even `!=` and `!~`. */
export function attributeCondition({ name, operator, value }: AttributeFilter): Condition {
  const text = attributeText(name);
  const number = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(value.trim()) ? Number(value) : undefined;
  if (operator === "~" || operator === "!~") {
    const sql = `regexp_matches(${text.sql}, ?)`;
    return { sql: operator === "~" ? sql : `NOT ${sql}`, parameters: [...text.parameters, value] };
  }
  if (operator === "=" || operator === "!=") {
    // 500 equals "500" and 1.0 equals 1; a text that is not a number only equals itself.
    const sql = number === undefined ? `${text.sql} = ?` : `coalesce(TRY_CAST(${text.sql} AS DOUBLE) = ?, ${text.sql} = ?)`;
    const parameters = number === undefined ? [...text.parameters, value] : [...text.parameters, number, ...text.parameters, value];
    const quick = operator === "=" && number === undefined ? quickCondition(name, value) : undefined;
    if (quick) return { sql: `(${quick.sql} AND ${sql})`, parameters: [...quick.parameters, ...parameters] };
    return { sql: operator === "=" ? `(${sql})` : `NOT (${sql})`, parameters };
  }
  if (number === undefined)
    throw new CoralError({ code: "invalid", message: `Cannot filter by ${name} ${operator} "${value}": the value is not a number` });
  return { sql: `TRY_CAST(${text.sql} AS DOUBLE) ${operator} ?`, parameters: [...text.parameters, number] };
}

/** Texts that JSON stores unescaped and that cannot be JSON of another type. Lists and objects compare by their text. */
const plainText = /^(?!true$|false$|null$|[[{])[ !#-.0-[\]-~]+$/;

/**
 * A cheap prefilter that every span with this value passes, and few others. Searching for the key-value text costs a fraction of parsing
 * JSON.
 */
function quickCondition(name: string, value: string): Condition | undefined {
  if (!plainText.test(value)) return undefined;
  const pair = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  const column = columnOf(name);
  const own = column === undefined ? "" : `CAST("${column}" AS VARCHAR) = ? OR `;
  return {
    sql: `(${own}contains(attributes, ?) OR contains(resource, ?))`,
    parameters: [...(column === undefined ? [] : [value]), pair, pair],
  };
}

function columnOf(name: string): string | undefined {
  return columns.get(name) ?? (plainColumns.has(name) ? name : undefined);
}

/** Throws `invalid` for a malformed regular expression. DuckDB's RE2 takes linear time. */
export async function checkPatterns(store: Queryable, filters: readonly AttributeFilter[]): Promise<void> {
  for (const { name, operator, value } of filters) {
    if (operator !== "~" && operator !== "!~") continue;
    try {
      await store.query("SELECT regexp_matches('', ?)", [value]);
    } catch (error) {
      const { message } = CoralError.from(error);
      throw new CoralError({ code: "invalid", message: `Cannot filter by ${name} ${operator} "${value}": ${message}`, cause: error });
    }
  }
}

/**
 * The attribute as text; null for a span without it. If a span set an attribute twice, the column has the first value and JSON has both.
 * JSON is parsed only where it contains the key, which costs a tenth of parsing all.
 */
function attributeText(name: string): Condition {
  const key = JSON.stringify(name);
  // A JSON pointer, because names contain dots and may contain any character.
  const path = `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const inJson = (column: string): string => `CASE WHEN contains(${column}, ?) THEN json_extract_string(${column}, ?) END`;
  const column = columnOf(name);
  const own = column === undefined ? [] : [`CAST("${column}" AS VARCHAR)`];
  return {
    sql: `coalesce(${[inJson("attributes"), ...own, inJson("resource")].join(", ")})`,
    parameters: [`${key}:`, path, `${key}:`, path],
  };
}
