/**
 * Extracts what a statement requires of the rows of a view: times between constants, one service, one trace. Views over many files then
 * read only the matching ones. Conditions that are not understood restrict nothing, so no row of the statement's result is missed.
 */

import type { Connection } from "../../engine/connection.ts";
import type { SegmentRange } from "../../segments/segment-source.ts";
import type { ViewUse } from "../segment-views.ts";
import { type AstNode, type AstValue, isAstNode, literalOf, nodesOf, textOf } from "./ast.ts";

/** Restrictions of one reference to a view. */
interface ReferenceRange {
  from?: AstNode;
  until?: AstNode;
  equals: Map<string, string>;
}

/** Functions whose value stays the same when the statement runs a moment later, or rises with the clock. */
const steadyFunctions = new Set(
  "now get_current_timestamp current_timestamp today + - trunc date_trunc make_timestamp epoch_ms to_timestamp to_seconds to_minutes to_hours to_days to_weeks to_months to_milliseconds to_microseconds strptime".split(
    " ",
  ),
);
/** Bounds are evaluated before the statement runs, and clocks differ. */
const marginUs = 60_000_000;

/** For each view of the statement, the union of the rows that its references need. */
export async function viewRanges(connection: Connection, node: AstNode, views: readonly string[]): Promise<ViewUse[]> {
  const uses: ViewUse[] = [];
  for (const name of views) {
    const places: (ReferenceRange | undefined)[] = [];
    collect(node, name, places);
    const range = places.every((place) => place !== undefined) ? await combined(connection, places) : undefined;
    uses.push(range ? { name, range } : { name });
  }
  return uses;
}

/** Undefined for a reference without known restrictions, such as one side of a join. */
function collect(value: AstValue | undefined, view: string, places: (ReferenceRange | undefined)[], isDirect?: AstNode): void {
  if (Array.isArray(value)) {
    for (const item of value) collect(item, view, places);
    return;
  }
  if (!isAstNode(value)) return;
  if (value["type"] === "BASE_TABLE" && textOf(value["table_name"]).toLowerCase() === view) {
    places.push(isDirect ? referenceOf(value, isDirect["where_clause"]) : undefined);
    return;
  }
  for (const [key, part] of Object.entries(value)) {
    const isFrom = value["type"] === "SELECT_NODE" && key === "from_table" && isAstNode(part);
    if (isFrom) collect(part, view, places, value);
    else collect(part, view, places);
  }
}

function referenceOf(table: AstNode, where: AstValue | undefined): ReferenceRange {
  const names = new Set(
    [textOf(table["alias"]), textOf(table["table_name"])].filter((name) => name !== "").map((name) => name.toLowerCase()),
  );
  const place: ReferenceRange = { equals: new Map() };
  for (const condition of conditionsOf(where)) addCondition(condition, names, place);
  return place;
}

/** Conditions that must hold for every row (the ANDed parts). */
function conditionsOf(where: AstValue | undefined): AstNode[] {
  if (!isAstNode(where)) return [];
  if (where["type"] !== "CONJUNCTION_AND") return [where];
  return nodesOf(where["children"]).flatMap((child) => conditionsOf(child));
}

const mirrored: Readonly<Record<string, string>> = {
  COMPARE_GREATERTHAN: "COMPARE_LESSTHAN",
  COMPARE_GREATERTHANOREQUALTO: "COMPARE_LESSTHANOREQUALTO",
  COMPARE_LESSTHAN: "COMPARE_GREATERTHAN",
  COMPARE_LESSTHANOREQUALTO: "COMPARE_GREATERTHANOREQUALTO",
  COMPARE_EQUAL: "COMPARE_EQUAL",
};

function addCondition(condition: AstNode, names: ReadonlySet<string>, place: ReferenceRange): void {
  if (condition["class"] === "BETWEEN" && columnOf(condition["input"], names) === "time") {
    if (isSteady(condition["lower"])) place.from ??= condition["lower"];
    if (isSteady(condition["upper"])) place.until ??= condition["upper"];
    return;
  }
  const kind = mirrored[textOf(condition["type"])];
  if (condition["class"] !== "COMPARISON" || kind === undefined) return;
  const left = columnOf(condition["left"], names);
  const column = left ?? columnOf(condition["right"], names);
  const other = left === undefined ? condition["left"] : condition["right"];
  const comparison = left === undefined ? kind : textOf(condition["type"]);
  if (column === "time" && isSteady(other)) {
    if (comparison.startsWith("COMPARE_GREATER") || comparison === "COMPARE_EQUAL") place.from ??= other;
    if (comparison.startsWith("COMPARE_LESS") || comparison === "COMPARE_EQUAL") place.until ??= other;
  } else if (column !== undefined && comparison === "COMPARE_EQUAL" && isAstNode(other)) {
    const literal = other["class"] === "CONSTANT" ? literalOf(other) : undefined;
    if (typeof literal === "string") place.equals.set(column, literal);
  }
}

function columnOf(value: AstValue | undefined, names: ReadonlySet<string>): string | undefined {
  if (!isAstNode(value) || value["class"] !== "COLUMN_REF" || !Array.isArray(value["column_names"])) return undefined;
  const path = value["column_names"].map((name) => textOf(name).toLowerCase());
  if (path.length === 1) return path[0];
  return path.length === 2 && names.has(path[0] ?? "") ? path[1] : undefined;
}

function isSteady(value: AstValue | undefined): value is AstNode {
  if (!isAstNode(value)) return false;
  switch (value["class"]) {
    case "CONSTANT":
      return true;
    case "CAST":
      return isSteady(value["child"]);
    case "FUNCTION":
      return steadyFunctions.has(textOf(value["function_name"]).toLowerCase()) && nodesOf(value["children"]).every(isSteady);
    default:
      return false;
  }
}

async function combined(connection: Connection, places: readonly ReferenceRange[]): Promise<SegmentRange | undefined> {
  const range: SegmentRange = {};
  const froms = places.map(({ from }) => from);
  if (froms.length > 0 && froms.every((from) => from !== undefined)) {
    const us = (await valuesOf(connection, froms)).reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
    if (Number.isFinite(us)) range.fromUs = us - marginUs;
  }
  const untils = places.map(({ until }) => until);
  if (untils.length > 0 && untils.every((until) => until !== undefined)) {
    const us = (await valuesOf(connection, untils)).reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
    if (Number.isFinite(us)) range.untilUs = us + marginUs;
  }
  const service = agreed(places, "service");
  const agentId = agreed(places, "agent_id");
  const lookup = agreed(places, "trace_id");
  return {
    ...range,
    ...(service !== undefined && { service }),
    ...(agentId !== undefined && { agentId }),
    ...(lookup !== undefined && /^[0-9a-f]{32}$/.test(lookup) && { lookup }),
  };
}

function agreed(places: readonly ReferenceRange[], column: string): string | undefined {
  const values = new Set(places.map(({ equals }) => equals.get(column)));
  return values.size === 1 ? [...values][0] : undefined;
}

/** Microseconds since 1970. NaN, which matches no comparison, for anything that is not a time. */
async function valuesOf(connection: Connection, expressions: readonly AstNode[]): Promise<number[]> {
  const casts = expressions.map((child, index) => ({
    class: "CAST",
    alias: `bound_${index}`,
    type: "OPERATOR_CAST",
    child,
    cast_type: { id: "TIMESTAMP" },
    try_cast: true,
  }));
  const node = {
    type: "SELECT_NODE",
    cte_map: { map: [] },
    select_list: casts,
    from_table: { type: "EMPTY" },
    aggregate_handling: "STANDARD_HANDLING",
  };
  // Source positions are 64 bits wide and do not survive JSON here; nothing needs them.
  const tree = JSON.stringify({ error: false, statements: [{ node }] }, (key, value: unknown) =>
    key === "query_location" ? undefined : value,
  );
  try {
    const [row] = await connection.query("SELECT json_deserialize_sql(?::JSON) AS text", [tree]);
    const [values] = await connection.query(String(row?.["text"]));
    return Object.values(values ?? {}).map((value) => (typeof value === "number" ? value : Number.NaN));
  } catch {
    // What DuckDB cannot evaluate by itself restricts nothing; running the statement reports the error.
    return [Number.NaN];
  }
}
