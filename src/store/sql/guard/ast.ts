/** The shape of the output of DuckDB's `json_serialize_sql`, as far as the guard reads it. */

export type AstNode = { [key: string]: AstValue };
export type AstValue = string | number | boolean | null | AstNode | AstValue[];

export function isAstNode(value: AstValue | undefined): value is AstNode {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function textOf(value: AstValue | undefined): string {
  return typeof value === "string" ? value : "";
}

export function nodesOf(value: AstValue | undefined): AstNode[] {
  return Array.isArray(value) ? value.filter(isAstNode) : [];
}

/** The value of a literal, including a minus sign before a number; undefined for anything else. */
export function literalOf(expression: AstNode | undefined): string | number | undefined {
  if (expression?.["class"] !== "CONSTANT" || !isAstNode(expression["value"])) return undefined;
  const value = expression["value"]["value"];
  return typeof value === "string" || typeof value === "number" ? value : undefined;
}
