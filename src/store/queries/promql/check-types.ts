/** Type-checks PromQL expressions: the type of each node, and whether operators and functions accept their operands. */

import type { Aggregation, Binary, Call, Expression } from "./ast.ts";
import { functions } from "./functions.ts";

export type ValueType = "scalar" | "vector" | "range" | "text";

const article: Record<ValueType, string> = {
  scalar: "a scalar",
  vector: "an instant vector",
  range: "a range vector such as metric[5m]",
  text: "a string",
};

export function typeOf(expression: Expression): ValueType {
  switch (expression.type) {
    case "number":
      return "scalar";
    case "text":
      return "text";
    case "negation":
      return typeOf(expression.expression);
    case "selector":
      return expression.rangeMs === undefined ? "vector" : "range";
    case "subquery":
      return "range";
    case "aggregation":
      return "vector";
    case "call":
      return functions[expression.name]?.returns ?? "vector";
    case "binary":
      return typeOf(expression.left) === "scalar" && typeOf(expression.right) === "scalar" ? "scalar" : "vector";
  }
}

/** The type error of a call; undefined if the call is valid. */
export function wrongCall({ name, args }: Call): string | undefined {
  const known = functions[name];
  if (known === undefined) return `${name}() is not supported`;
  const least = known.args.length - (known.optional ?? 0);
  if (args.length < least || (args.length > known.args.length && known.isVariadic !== true)) {
    const most = known.isVariadic === true ? " or more" : known.optional ? ` to ${known.args.length}` : "";
    return `${name}() takes ${least}${most} arguments, not ${args.length}`;
  }
  for (const [index, arg] of args.entries()) {
    const wanted = known.args[Math.min(index, known.args.length - 1)];
    const given = typeOf(arg);
    if (wanted !== undefined && given !== wanted)
      return `${name}() needs ${article[wanted]} as argument ${index + 1}, not ${article[given]}`;
  }
  return undefined;
}

/** Aggregation operators that take a parameter before the vector. */
const parameters: Readonly<Record<string, ValueType>> = { topk: "scalar", bottomk: "scalar", quantile: "scalar", count_values: "text" };

export function wrongAggregation({ operator, expression, parameter }: Omit<Aggregation, "grouping">, count: number): string | undefined {
  const wanted = parameters[operator];
  const expected = wanted === undefined ? 1 : 2;
  if (count !== expected) return `${operator} takes ${expected} ${expected === 1 ? "argument" : "arguments"}, not ${count}`;
  if (wanted !== undefined && parameter && typeOf(parameter) !== wanted)
    return `${operator} needs ${article[wanted]} as argument 1, not ${article[typeOf(parameter)]}`;
  return typeOf(expression) === "vector" ? undefined : `${operator} needs an instant vector, not ${article[typeOf(expression)]}`;
}

const comparisons: ReadonlySet<string> = new Set(["==", "!=", ">", "<", ">=", "<="]);

export function isSetOperator(operator: string): operator is "and" | "or" | "unless" {
  return operator === "and" || operator === "or" || operator === "unless";
}

export function wrongBinary({ operator, left, right, isBool, matching }: Binary): string | undefined {
  const types = [typeOf(left), typeOf(right)];
  const wrong = types.find((type) => type === "range" || type === "text");
  if (wrong !== undefined) return `"${operator}" takes scalars and instant vectors, not ${article[wrong]}`;
  if (isBool && !comparisons.has(operator)) return "bool is only allowed on comparisons";
  const scalars = types.filter((type) => type === "scalar").length;
  if (isSetOperator(operator)) {
    if (scalars > 0) return `"${operator}" needs instant vectors on both sides, not a scalar`;
    return matching?.group ? `"${operator}" is many-to-many; remove group_${matching.group.side}` : undefined;
  }
  if (scalars === 2 && comparisons.has(operator) && !isBool) return `a comparison of two scalars needs bool, such as 1 ${operator} bool 2`;
  if (scalars > 0 && matching) return "on and ignoring need instant vectors on both sides";
  const twice = matching?.on === true ? matching.group?.include.find((label) => matching.labels.includes(label)) : undefined;
  return twice === undefined ? undefined : `the label "${twice}" is in both on() and group_${matching?.group?.side}()`;
}
