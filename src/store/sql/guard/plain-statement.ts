/**
 * Decides whether a statement may run inside the daemon, next to the tables that it reads. DuckDB checks for interrupts only between chunks
 * of 2,048 rows: not in the parser, the planner, or a function that is busy with one text. So only statements with bounded work per chunk
 * qualify: few and small parts, equality joins, and functions that take linear time. All others run in a process that can be killed. An
 * allow list: unknown syntax is not plain.
 */

import { type AstNode, type AstValue, isAstNode, literalOf, nodesOf, textOf } from "./ast.ts";

const nodesMax = 1_000;
const joinsMax = 4;
const queriesMax = 12;

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/));

/** Excludes quantiles, lists and other aggregates that keep all values of a group and process them at its end. */
const functions =
  words(`+ - * / // % || ~~ !~~ ^@ abs ceil ceiling floor round sign trunc mod divide add subtract multiply greatest least isnan isinf
  isfinite lower upper lcase ucase length strlen left right substr substring contains prefix suffix starts_with ends_with concat nullif coalesce
  now get_current_timestamp today current_date date_trunc datetrunc date_part datepart date_diff datediff time_bucket epoch epoch_ms epoch_us
  year month day hour minute second make_timestamp to_timestamp to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds to_weeks
  to_months to_years count count_star count_if countif sum avg mean min max any_value bool_and bool_or first last arg_max arg_min max_by min_by
  approx_count_distinct`);

const expressionClasses = words("BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION OPERATOR STAR");
const operators = words("COMPARE_IN COMPARE_NOT_IN OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE");
const queryTypes = words("SELECT_NODE SET_OPERATION_NODE CTE_NODE");
const tableTypes = words("BASE_TABLE EMPTY JOIN SHOW_REF SUBQUERY");
const modifiers = words("ORDER_MODIFIER LIMIT_MODIFIER DISTINCT_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING DECIMAL_TYPE_INFO");
const castTypes =
  words(`BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE DECIMAL VARCHAR DATE TIME
  TIMESTAMP INTERVAL`);

/** `node` must have passed `checkStatement`. */
export function isPlain(node: AstNode): boolean {
  const counts = { nodes: 0, joins: 0, queries: 0 };
  return visit(node, counts) && counts.nodes <= nodesMax && counts.joins <= joinsMax && counts.queries <= queriesMax;
}

interface Counts {
  nodes: number;
  joins: number;
  queries: number;
}

function visit(value: AstValue | undefined, counts: Counts): boolean {
  if (Array.isArray(value)) return value.every((item) => visit(item, counts));
  if (!isAstNode(value)) return true;
  counts.nodes++;
  const isKnown = typeof value["class"] === "string" ? isPlainExpression(value["class"], value) : isPlainPart(value, counts);
  return isKnown && Object.values(value).every((part) => visit(part, counts));
}

function isPlainPart(node: AstNode, counts: Counts): boolean {
  const { type } = node;
  // Parts without a name, such as the list of CTEs, and the types of literals.
  if (typeof type !== "string") return true;
  if (queryTypes.has(type)) {
    counts.queries++;
    // CUBE and ROLLUP plan one aggregate per grouping set.
    return !Array.isArray(node["group_sets"]) || node["group_sets"].length <= 1;
  }
  if (type === "JOIN") {
    counts.joins++;
    return isEqualityJoin(node);
  }
  // SUMMARIZE computes quantiles.
  if (type === "SHOW_REF") return node["show_type"] === "DESCRIBE";
  return tableTypes.has(type) || modifiers.has(type);
}

/** Other joins compare every row of one side with every row of the other. */
function isEqualityJoin(join: AstNode): boolean {
  if (join["ref_type"] !== "REGULAR") return false;
  const condition = join["condition"];
  if (!isAstNode(condition)) return Array.isArray(join["using_columns"]) && join["using_columns"].length > 0;
  const parts = condition["type"] === "CONJUNCTION_AND" ? nodesOf(condition["children"]) : [condition];
  return parts.length > 0 && parts.every((part) => part["type"] === "COMPARE_EQUAL" && isColumn(part["left"]) && isColumn(part["right"]));
}

function isColumn(value: AstValue | undefined): boolean {
  return isAstNode(value) && value["class"] === "COLUMN_REF";
}

function isPlainExpression(kind: string, node: AstNode): boolean {
  if (!expressionClasses.has(kind)) return false;
  switch (kind) {
    case "OPERATOR":
      return operators.has(textOf(node["type"]));
    case "CAST":
      return isAstNode(node["cast_type"]) && castTypes.has(textOf(node["cast_type"]["id"]));
    // COLUMNS('…') matches column names with a regular expression.
    case "STAR":
      return node["columns"] !== true;
    case "FUNCTION":
      return isPlainCall(textOf(node["function_name"]).toLowerCase(), node);
    default:
      return true;
  }
}

function isPlainCall(name: string, node: AstNode): boolean {
  if (!functions.has(name)) return false;
  // Ordered aggregates sort a group at its end, without checking for interrupts.
  if (isAstNode(node["order_bys"]) && nodesOf(node["order_bys"]["orders"]).length > 0) return false;
  if (/^(?:arg_)?(?:max|min)(?:_by)?$/.test(name) && nodesOf(node["children"]).length > (/_/.test(name) ? 2 : 1)) return false;
  return !name.endsWith("~~") || isSimplePattern(literalOf(nodesOf(node["children"])[1]));
}

/** x, x%, %x and %x%. A pattern with more wildcards is tried at every position for each of them: n wildcards take n-th power time. */
function isSimplePattern(pattern: string | number | undefined): boolean {
  return typeof pattern === "string" && /^%?[^%_\\]*%?$/.test(pattern);
}
