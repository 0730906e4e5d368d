/** Reads `EXPLAIN (FORMAT JSON)`. Untrusted text: only names, numbers and comparisons are kept. */

import { isJsonObject } from "../../base/exact-json.ts";

export interface PostgresScan {
  schema: string;
  table: string;
  /** Estimated rows after the filter. */
  rowsOut: number;
  columns: string[];
}

export interface PostgresPlan {
  scans: PostgresScan[];
  indexes: string[];
  cost: number | null;
}

const maxNodes = 2_000;
const maxScans = 20;
const identifier = String.raw`(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)`;
/** `(user_id = $1)`, `((email)::text = ($1)::text)`, `(o.user_id = ANY ($1))`; the other side must not be a column. */
const comparison = new RegExp(
  String.raw`\(?(?:(${identifier})\.)?(${identifier})\)?(?:::[\w ]+)? (=|<|>|<=|>=|~~) (?:ANY )?\(*(?:'|\$\d|[-\d]|NULL|\(?CURRENT_|now\()`,
  "g",
);

/** Null if the text is not a plan. */
export function readPostgresPlan(json: string): PostgresPlan | null {
  const root = rootOf(json);
  if (root === null) return null;
  const plan: PostgresPlan = { scans: [], indexes: [], cost: numberIn(root, "Total Cost") };
  const queue: unknown[] = [root];
  for (let visited = 0; queue.length > 0 && visited < maxNodes; visited++) {
    const node = queue.shift();
    if (!isJsonObject(node)) continue;
    const index = textIn(node, "Index Name");
    if (index !== null && !plan.indexes.includes(index)) plan.indexes.push(index);
    const table = textIn(node, "Relation Name");
    if (textIn(node, "Node Type") === "Seq Scan" && table !== null && plan.scans.length < maxScans) {
      plan.scans.push({
        schema: textIn(node, "Schema") ?? "",
        table,
        rowsOut: numberIn(node, "Plan Rows") ?? 0,
        columns: comparedColumns(textIn(node, "Filter") ?? ""),
      });
    }
    const children = node["Plans"];
    if (Array.isArray(children)) queue.push(...children.slice(0, maxNodes));
  }
  return plan;
}

/**
 * Equalities first. None for alternatives (OR), which need an index each, and for a function of a column, which needs an index on the
 * expression.
 */
export function comparedColumns(filter: string): string[] {
  if (/ OR |\bNOT\b|<>/.test(filter)) return [];
  const found: { column: string; rank: number }[] = [];
  for (const match of filter.matchAll(comparison)) {
    const [, , column = "", sign = ""] = match;
    if (isInFunction(filter, match.index)) continue;
    found.push({ column, rank: sign === "=" ? 0 : 1 });
  }
  return [...new Set(found.sort((a, b) => a.rank - b.rank).map(({ column }) => column))];
}

/** `lower(email) = …`: the parenthesis before the column belongs to a function. What follows `::` is a type. */
function isInFunction(filter: string, at: number): boolean {
  return /[\w":]$/.test(filter.slice(0, at));
}

function rootOf(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    const first: unknown = Array.isArray(value) ? value[0] : undefined;
    return isJsonObject(first) && isJsonObject(first["Plan"]) ? first["Plan"] : null;
  } catch {
    // Not JSON, so not a plan.
    return null;
  }
}

function textIn(node: Record<string, unknown>, name: string): string | null {
  const value = node[name];
  return typeof value === "string" && value.length <= 4_000 ? value : null;
}

function numberIn(node: Record<string, unknown>, name: string): number | null {
  const value = node[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
