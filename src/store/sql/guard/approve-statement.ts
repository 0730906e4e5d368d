import { closest } from "../../../base/closest.ts";
import { CoralError } from "../../../base/errors.ts";
import type { Connection } from "../../engine/connection.ts";
import { columnMeaning } from "../column-meanings.ts";
import { type PublishedView, viewSchema } from "../published-views.ts";
import type { ViewUse } from "../segment-views.ts";
import { type AstNode, type AstValue, isAstNode, nodesOf, textOf } from "./ast.ts";
import { checkStatement } from "./check-statement.ts";
import { isPlain } from "./plain-statement.ts";
import { usedColumns } from "./used-columns.ts";
import { viewRanges } from "./view-ranges.ts";

/** Run the text unchanged. */
export interface ApprovedQuery {
  kind: "query";
  /** In lower case. */
  views: string[];
  uses: ViewUse[];
  /** Input of `refuseInternalNames`. */
  cteNames: string[];
  /** It may run inside the daemon. */
  isPlain: boolean;
  /** Columns that it may read, over all its views. */
  columns: "all" | ReadonlySet<string>;
}

export type ApprovedStatement =
  | ApprovedQuery
  /** SHOW TABLES and DESCRIBE of a view are answered from the published catalog. */
  | { kind: "answered"; views: string[]; columns: { name: string; type: string }[]; rows: unknown[][] };

/** In characters. The parser's tree takes about a hundred times as much memory. */
const sqlMaxLength = 64 * 1024;

/** Parses the statement with DuckDB's own parser. Throws unless it may run. */
export async function approveStatement(connection: Connection, views: readonly PublishedView[], sql: string): Promise<ApprovedStatement> {
  if (sql.length > sqlMaxLength) throw refusal(views, `it has ${sql.length} characters; at most ${sqlMaxLength} are allowed`);
  const node = await parseStatement(connection, views, sql);
  const answered = answerFromCatalog(node, views);
  if (answered) return answered;
  const verdict = checkStatement(node, { views: new Set(views.map((view) => view.name.toLowerCase())), viewSchema });
  if (!verdict.allowed) throw refusal(views, verdict.reason);
  return {
    kind: "query",
    views: verdict.views,
    uses: await viewRanges(connection, node, verdict.views),
    cteNames: verdict.cteNames,
    isPlain: isPlain(node),
    columns: usedColumns(node, verdict.views),
  };
}

async function parseStatement(connection: Connection, views: readonly PublishedView[], sql: string): Promise<AstNode> {
  const [row] = await connection.query("SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true) AS tree", [sql]);
  const tree = JSON.parse(textOf(row?.["tree"] as AstValue)) as AstNode;
  if (tree["error"] === true) {
    if (textOf(tree["error_type"]) === "not implemented") throw refusal(views, notASelect(sql));
    throw new CoralError({ code: "invalid", message: `Cannot parse SQL: ${textOf(tree["error_message"])}` });
  }
  const statements = nodesOf(tree["statements"]);
  if (statements.length === 0) throw new CoralError({ code: "invalid", message: "Cannot run SQL: no statement given" });
  const [statement] = statements;
  if (statements.length > 1) throw refusal(views, `${statements.length} statements given; send them one by one`);
  if (!isAstNode(statement?.["node"])) throw refusal(views, "unsupported kind of statement");
  return statement["node"];
}

function notASelect(sql: string): string {
  return /^\W*(?:un)?pivot\b/i.test(sql)
    ? "a PIVOT statement finds its columns by running twice; write FROM view PIVOT (sum(x) FOR name IN ('a', 'b')) instead"
    : "it is not a SELECT";
}

function refusal(views: readonly PublishedView[], reason: string): CoralError {
  const names = views.map((view) => view.name);
  const near = closest(/^"([^"]+)" is not a published view$/.exec(reason)?.[1] ?? "", names);
  const hint = near === undefined ? "" : `; did you mean "${near}"?`;
  return new CoralError({
    code: "not-permitted",
    message: `Cannot run SQL: ${reason}${hint || ";"} one SELECT or DESCRIBE over the published views is allowed, and SHOW TABLES lists them`,
    details: { views: names },
  });
}

/** Where a CTE is out of scope, DuckDB looks its name up in the catalog. So a CTE must not have the name of an internal table. */
export async function refuseInternalNames(
  connection: Connection,
  views: readonly PublishedView[],
  cteNames: readonly string[],
): Promise<void> {
  // The name of a view resolves to the view, which comes first in the search path.
  const names = cteNames.filter((name) => !views.some((view) => view.name === name));
  if (names.length === 0) return;
  const rows = await connection.query(
    `SELECT name FROM (SELECT lower(table_name) AS name, schema_name FROM duckdb_tables() UNION ALL SELECT lower(view_name), schema_name FROM duckdb_views())
     WHERE name IN (${names.map(() => "?").join(", ")}) AND schema_name <> ? LIMIT 1`,
    [...names, viewSchema],
  );
  const name = rows[0]?.["name"];
  if (name !== undefined) throw refusal(views, `"${String(name)}" cannot be the name of a CTE; choose another one`);
}

function answerFromCatalog(node: AstNode, views: readonly PublishedView[]): ApprovedStatement | undefined {
  const from = node["from_table"];
  if (node["type"] !== "SELECT_NODE" || !isAstNode(from) || from["type"] !== "SHOW_REF") return undefined;
  const shown = textOf(from["table_name"]).replaceAll('"', "");
  if (from["show_type"] === "SHOW_UNQUALIFIED" && (shown === "tables" || shown === "__show_tables_expanded")) {
    const columns = [
      { name: "name", type: "VARCHAR" },
      { name: "description", type: "VARCHAR" },
    ];
    return { kind: "answered", views: [], columns, rows: views.map((view) => [view.name, view.description]) };
  }
  const view = from["show_type"] === "DESCRIBE" && isAstNode(from["query"]) ? describedView(from["query"], views) : undefined;
  if (!view) return undefined;
  const columns = [
    { name: "column_name", type: "VARCHAR" },
    { name: "column_type", type: "VARCHAR" },
    { name: "meaning", type: "VARCHAR" },
  ];
  const rows = view.columns.map(({ name, type }) => [name, type, columnMeaning(view.name, name)]);
  return { kind: "answered", views: [], columns, rows };
}

/** DuckDB parses DESCRIBE host as DESCRIBE SELECT * FROM host. */
function describedView(query: AstNode, views: readonly PublishedView[]): PublishedView | undefined {
  const from = query["from_table"];
  const [first, ...others] = nodesOf(query["select_list"]);
  const isWholeStar = first?.["class"] === "STAR" && first["exclude_list"] === undefined && first["replace_list"] === undefined;
  const isPlain = query["type"] === "SELECT_NODE" && isWholeStar && others.length === 0;
  if (!isPlain || !isAstNode(from) || from["type"] !== "BASE_TABLE" || textOf(from["catalog_name"]) !== "") return undefined;
  const schema = textOf(from["schema_name"]);
  if (schema !== "" && schema !== viewSchema) return undefined;
  return views.find((view) => view.name === textOf(from["table_name"]).toLowerCase());
}
