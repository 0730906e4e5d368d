import { type AstNode, type AstValue, isAstNode } from "./ast.ts";

/**
 * Column names in lower case that a statement may read; "all" if the statement can see which columns its views have. Every text in the tree
 * counts as a name, so that no kind of reference is missed.
 */
export function usedColumns(node: AstNode, views: readonly string[]): "all" | ReadonlySet<string> {
  const texts = new Set<string>();
  if (seesAll(node, texts)) return "all";
  // A view or its alias used as a value is a struct of all its columns. The name of a view also occurs where it is read from.
  const references = new Set<string>();
  collectReferences(node, references);
  const aliases = new Set<string>(views);
  collectAliases(node, aliases);
  return [...references].some((name) => aliases.has(name)) ? "all" : texts;
}

function seesAll(value: AstValue | undefined, texts: Set<string>): boolean {
  if (typeof value === "string") texts.add(value.toLowerCase());
  if (Array.isArray(value)) return value.some((item) => seesAll(item, texts));
  if (!isAstNode(value)) return false;
  // The star, positional references such as #1, and constructs that match columns by position or name.
  if (value["class"] === "STAR" || value["class"] === "POSITIONAL_REFERENCE" || value["column_name_alias"] !== undefined) return true;
  if (value["type"] === "PIVOT" || value["type"] === "SHOW_REF" || value["ref_type"] === "NATURAL") return true;
  return Object.values(value).some((part) => seesAll(part, texts));
}

/** First parts of references: `h.time` does not refer to a whole row, `h` alone does. */
function collectReferences(value: AstValue | undefined, into: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) collectReferences(item, into);
  if (!isAstNode(value)) return;
  const names = value["class"] === "COLUMN_REF" ? value["column_names"] : undefined;
  if (Array.isArray(names) && names.length === 1 && typeof names[0] === "string") into.add(names[0].toLowerCase());
  for (const part of Object.values(value)) collectReferences(part, into);
}

function collectAliases(value: AstValue | undefined, into: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) collectAliases(item, into);
  if (!isAstNode(value)) return;
  if (value["type"] === "BASE_TABLE" && typeof value["alias"] === "string") into.add(value["alias"].toLowerCase());
  for (const part of Object.values(value)) collectAliases(part, into);
}
