/** Reads `EXPLAIN FORMAT=JSON` of MySQL and MariaDB. Untrusted text: only names, numbers and comparisons are kept. */

import { isJsonObject } from "../../base/exact-json.ts";

export interface MysqlScan {
  table: string;
  rows: number;
  columns: string[];
}

export interface MysqlPlan {
  scans: MysqlScan[];
  indexes: string[];
  cost: number | null;
}

const maxNodes = 5_000;
const maxScans = 20;
/** `orders.user_id = '1'`, with or without backticks and database. */
const comparison = /(?:`[^`]+`\.|\b\w+\.)*(?:`([^`]+)`|\b([A-Za-z_]\w*))\s*(=|<=>|<|>|<=|>=|\blike\b)\s*(?:'|[-\d]|\(?cast|str_to)/gi;

/** Null if the text is not a plan. */
export function readMysqlPlan(json: string): MysqlPlan | null {
  let root: unknown;
  try {
    root = JSON.parse(json);
  } catch {
    // Not JSON, so not a plan.
    return null;
  }
  if (!isJsonObject(root) || !isJsonObject(root["query_block"])) return null;
  const block = root["query_block"];
  const cost = isJsonObject(block["cost_info"]) ? numberIn(block["cost_info"], "query_cost") : numberIn(block, "cost");
  const plan: MysqlPlan = { scans: [], indexes: [], cost };
  const queue: unknown[] = [block];
  for (let visited = 0; queue.length > 0 && visited < maxNodes; visited++) {
    const node = queue.shift();
    if (Array.isArray(node)) queue.push(...node.slice(0, maxNodes));
    if (!isJsonObject(node)) continue;
    addTable(plan, node);
    queue.push(...Object.values(node).filter((value) => typeof value === "object"));
  }
  return plan;
}

function addTable(plan: MysqlPlan, node: Record<string, unknown>): void {
  const table = textIn(node, "table_name");
  if (table === null || table.startsWith("<")) return;
  const key = textIn(node, "key");
  if (key !== null && !plan.indexes.includes(key)) plan.indexes.push(key);
  if (textIn(node, "access_type")?.toUpperCase() !== "ALL" || plan.scans.length >= maxScans) return;
  const rows = numberIn(node, "rows") ?? numberIn(node, "rows_examined_per_scan") ?? 0;
  plan.scans.push({ table, rows, columns: comparedColumns(textIn(node, "attached_condition") ?? "") });
}

/** Equalities first. None if there are alternatives (OR): each would need its own index. */
export function comparedColumns(condition: string): string[] {
  if (/\bor\b|<>|!=|\bnot\b/i.test(condition)) return [];
  const found = [...condition.matchAll(comparison)].map(([, quoted, plain = "", sign = ""]) => ({
    column: quoted ?? plain,
    rank: sign === "=" || sign === "<=>" ? 0 : 1,
  }));
  return [...new Set(found.sort((a, b) => a.rank - b.rank).map(({ column }) => column))];
}

function textIn(node: Record<string, unknown>, name: string): string | null {
  const value = node[name];
  return typeof value === "string" && value.length <= 4_000 ? value : null;
}

/** MySQL writes costs as strings. */
function numberIn(node: Record<string, unknown>, name: string): number | null {
  const value = node[name];
  const number = typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
  return Number.isFinite(number) ? number : null;
}
