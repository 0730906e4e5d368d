/**
 * Decides whether a parsed statement may run. It may only read published views and its own CTEs and call reviewed functions, and it must be
 * small enough to be planned quickly. Anything unknown to this walk is rejected.
 */

import { allowedFunctions, allowedTableFunctions } from "./allowed-functions.ts";
import { type AstNode, type AstValue, isAstNode, literalOf, nodesOf, textOf } from "./ast.ts";
import { StatementGrowth } from "./statement-growth.ts";

export interface StatementRules {
  /** Names of the published views in lower case. */
  views: ReadonlySet<string>;
  /** The schema that may qualify view names. */
  viewSchema: string;
}

export type StatementVerdict =
  /** The caller must compare `cteNames` with the catalog: no CTE may have the name of an internal table. */
  { allowed: true; views: string[]; cteNames: string[] } | { allowed: false; reason: string };

/** Planning time grows with the cube of the depth, and cannot be interrupted: 100 levels take 30 ms, 1,000 take 16 s. */
const depthMax = 100;
const queriesMax = 200;
const nodesMax = 50_000;

const expressionClasses = new Set(
  "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR POSITIONAL_REFERENCE STAR SUBQUERY WINDOW".split(
    " ",
  ),
);
const queryTypes = new Set(["SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"]);
const tableTypes = new Set(["BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"]);
const partTypes = new Set([
  ..."ORDER_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING".split(" "),
  ..."DECIMAL_TYPE_INFO STRING_TYPE_INFO LIST_TYPE_INFO STRUCT_TYPE_INFO ARRAY_TYPE_INFO UNBOUND_TYPE_INFO GENERIC_TYPE_INFO".split(" "),
]);

/** Thrown inside the walk, and converted to a verdict at the top. */
class Refusal extends Error {}

export function checkStatement(node: AstNode, rules: StatementRules): StatementVerdict {
  const walk = new StatementWalk(rules);
  try {
    walk.visit(node, new Set(), 0);
    walk.finish();
  } catch (error) {
    if (error instanceof Refusal) return { allowed: false, reason: error.message };
    throw error;
  }
  return { allowed: true, views: [...walk.views].sort(), cteNames: [...walk.cteNames] };
}

class StatementWalk {
  readonly views = new Set<string>();
  readonly cteNames = new Set<string>();
  readonly #rules: StatementRules;
  readonly #growth = new StatementGrowth();
  #nodes = 0;
  #queries = 0;

  constructor(rules: StatementRules) {
    this.#rules = rules;
  }

  finish(): void {
    refuseIf(this.#growth.problem());
  }

  visit(value: AstValue | undefined, scope: ReadonlySet<string>, depth: number): void {
    if (Array.isArray(value)) {
      for (const item of value) this.visit(item, scope, depth);
      return;
    }
    if (!isAstNode(value)) return;
    this.#nodes++;
    if (this.#nodes > nodesMax) throw new Refusal("it is too long; split it into several");
    if (depth > depthMax) throw new Refusal(`it is nested more than ${depthMax} levels deep; simplify it`);
    const kind = value["type"];
    if (typeof value["class"] === "string") this.#visitExpression(value["class"], value, scope, depth + 1);
    else if (typeof kind === "string" && queryTypes.has(kind)) this.#visitQuery(kind, value, scope, depth + 1);
    else if (typeof kind === "string" && tableTypes.has(kind)) this.#visitTable(kind, value, scope, depth + 1);
    else if (typeof kind === "string" && !partTypes.has(kind)) throw new Refusal(`it uses ${kind}, which is not allowed`);
    else this.#visitParts(value, scope, depth);
  }

  #visitParts(node: AstNode, scope: ReadonlySet<string>, depth: number, skip?: string): void {
    for (const [key, part] of Object.entries(node)) if (key !== skip) this.visit(part, scope, depth);
  }

  #visitExpression(kind: string, node: AstNode, scope: ReadonlySet<string>, depth: number): void {
    if (kind === "PARAMETER") throw new Refusal("it has a parameter such as $1 or ?; write the value itself");
    if (!expressionClasses.has(kind)) throw new Refusal(`it uses ${kind}, which is not allowed`);
    if (kind === "CONSTANT") {
      const literal = literalOf(node);
      if (typeof literal === "string") this.#growth.addLiteral(literal.length);
      return;
    }
    if (kind === "SUBQUERY") this.#growth.addCopying();
    if (kind !== "FUNCTION" && kind !== "WINDOW") {
      this.#visitParts(node, scope, depth);
      return;
    }
    this.#enterFunction(node);
    this.#visitParts(node, scope, depth);
    this.#growth.leaveCall();
  }

  #enterFunction(node: AstNode): void {
    const name = textOf(node["function_name"]).toLowerCase();
    const schema = textOf(node["schema"]);
    // The parser itself writes main.list_value for [1, 2].
    if (textOf(node["catalog"]) !== "" || (schema !== "" && schema !== "main")) {
      throw new Refusal(`function "${schema}.${name}" is qualified; use its bare name`);
    }
    // COLUMNS(c -> c LIKE 'x%') is parsed as this call over the column names. Lambdas over data are rejected.
    const isColumnFilter = name === "list_filter" && nodesOf(node["children"])[0]?.["class"] === "STAR";
    if (!allowedFunctions.has(name) && !isColumnFilter) throw new Refusal(`function "${name}" is not allowed`);
    refuseIf(this.#growth.enterCall(name, node));
  }

  #visitTable(kind: string, node: AstNode, scope: ReadonlySet<string>, depth: number): void {
    switch (kind) {
      case "BASE_TABLE":
        this.#checkTable(node, scope);
        break;
      case "JOIN":
        this.#growth.addCopying();
        break;
      case "TABLE_FUNCTION":
        this.#visitTableFunction(node, scope, depth);
        return;
      case "SHOW_REF":
        if (!isAstNode(node["query"])) throw new Refusal("SHOW is only allowed alone, as SHOW TABLES");
        break;
      default:
        break;
    }
    this.#visitParts(node, scope, depth);
  }

  #checkTable(node: AstNode, scope: ReadonlySet<string>): void {
    const name = textOf(node["table_name"]).toLowerCase();
    const schema = textOf(node["schema_name"]).toLowerCase();
    const catalog = textOf(node["catalog_name"]);
    const isView = this.#rules.views.has(name) && catalog === "" && (schema === "" || schema === this.#rules.viewSchema);
    if (schema === "" && catalog === "" && scope.has(name)) return;
    if (!isView) {
      const shown = [catalog, schema, textOf(node["table_name"])].filter((part) => part !== "").join(".");
      throw new Refusal(`"${shown}" is not a published view`);
    }
    this.views.add(name);
  }

  #visitTableFunction(node: AstNode, scope: ReadonlySet<string>, depth: number): void {
    const call = node["function"];
    const name = isAstNode(call) ? textOf(call["function_name"]).toLowerCase() : "";
    const isQualified = isAstNode(call) && (textOf(call["schema"]) !== "" || textOf(call["catalog"]) !== "");
    if (!isAstNode(call) || isQualified || !allowedTableFunctions.has(name)) {
      throw new Refusal(`FROM ${name}(…) is not allowed; besides views, ${[...allowedTableFunctions].join(", ")} can be read from`);
    }
    if (name === "unnest") this.#growth.addUnnest();
    this.#visitParts(call, scope, depth);
    this.#visitParts(node, scope, depth, "function");
  }

  /** A CTE is visible in later CTEs and in the query it belongs to. Only a recursive CTE sees itself, in its second half. */
  #visitQuery(kind: string, node: AstNode, outer: ReadonlySet<string>, depth: number): void {
    this.#queries++;
    if (this.#queries > queriesMax) throw new Refusal(`it has more than ${queriesMax} queries and subqueries; split it`);
    this.#growth.enterQuery();
    let scope = outer;
    const map = isAstNode(node["cte_map"]) ? nodesOf(node["cte_map"]["map"]) : [];
    for (const entry of map) {
      this.visit(entry["value"], scope, depth);
      scope = new Set([...scope, this.#cteName(textOf(entry["key"]))]);
    }
    const isNamed = kind === "RECURSIVE_CTE_NODE" || kind === "CTE_NODE";
    const own = isNamed ? new Set([...scope, this.#cteName(textOf(node["cte_name"]))]) : scope;
    if (kind === "RECURSIVE_CTE_NODE") this.#growth.addRecursion();
    for (const [key, part] of Object.entries(node)) {
      if (key !== "cte_map") this.visit(part, key === "right" || key === "child" ? own : scope, depth);
    }
    this.#growth.leaveQuery();
  }

  #cteName(name: string): string {
    // DuckDB would look up a name such as "/tmp/x.csv" as a file wherever it is not in scope.
    if (!/^[a-z_][a-z0-9_]*$/i.test(name)) throw new Refusal(`the CTE name "${name}" is not a plain identifier`);
    this.cteNames.add(name.toLowerCase());
    return name.toLowerCase();
  }
}

function refuseIf(problem: string | undefined): void {
  if (problem !== undefined) throw new Refusal(problem);
}
