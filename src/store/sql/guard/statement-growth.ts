/**
 * Bounds how much longer a statement can make a value. DuckDB counts the memory of its operators against `memory_limit`, but not that of
 * vectors inside an expression: one `repeat('x', 1e9)` takes gigabytes in a single call that no interrupt reaches. So each call that
 * lengthens its input has a growth factor. Nested calls multiply, the largest factor of a query counts, and queries multiply because they
 * may feed each other. Functions with a length argument only accept literals. Values of unbounded length (list, string_agg) may not be
 * copied to many rows.
 */

import { type AstNode, literalOf, nodesOf, textOf } from "./ast.ts";

/** Limit on the longest literal times growth, in characters. A vector holds 2,048 values, so this allows 128 MiB in the worst case. */
const lengthMax = 64 * 1024;
/** Assumed length of stored texts. */
const storedLengthMin = 64;
/** Limit on the elements of a list made by range(). */
const listLengthMax = 10_000;
/** Growth applies again in each iteration of a recursive query. Between iterations, DuckDB counts the rows against its limit. */
const recursiveGrowthMax = 4;

const fixedFactors: Readonly<Record<string, number>> = {
  bin: 8,
  to_binary: 8,
  hex: 2,
  to_hex: 2,
  url_encode: 3,
  base64: 2,
  to_base64: 2,
  regexp_escape: 2,
  json_quote: 6,
  to_json: 6,
  row_to_json: 6,
  array_to_json: 6,
  strftime: 16,
  split: 16,
  str_split: 16,
  string_split: 16,
  string_to_array: 16,
  str_split_regex: 16,
  string_split_regex: 16,
  regexp_split_to_array: 16,
  regexp_extract_all: 16,
};

/** Functions whose result is as long as their arguments together. */
const joining = new Set(
  `concat concat_ws list_concat list_cat array_concat array_cat map_concat struct_concat json_merge_patch list_value list_pack array_value row
   struct_pack struct_insert struct_update map json_array json_object list_zip array_zip`.split(/\s+/),
);

/** Aggregates whose result contains all their input. */
const collecting = new Set(
  `list array_agg string_agg group_concat listagg json_group_array json_group_object histogram histogram_exact approx_top_k`.split(/\s+/),
);

export class StatementGrowth {
  #total = 1;
  #longestLiteral = storedLengthMin;
  #isRecursive = false;
  #collectsInside = false;
  #collects = false;
  #copiesRows = false;
  #unnests = false;
  /** The calls around the current expression, innermost last, and the product of their factors. */
  #calls: string[] = [];
  #factors: number[] = [1];
  #queryMax = 1;
  #outer: { calls: string[]; factors: number[]; queryMax: number }[] = [];

  addLiteral(length: number): void {
    this.#longestLiteral = Math.max(this.#longestLiteral, length);
  }

  addRecursion(): void {
    this.#isRecursive = true;
  }

  /** Call for a join or a scalar subquery: each of its values may be combined with many rows. */
  addCopying(): void {
    this.#copiesRows = true;
  }

  addUnnest(): void {
    this.#unnests = true;
  }

  enterQuery(): void {
    this.#outer.push({ calls: this.#calls, factors: this.#factors, queryMax: this.#queryMax });
    this.#calls = [];
    this.#factors = [1];
    this.#queryMax = 1;
  }

  leaveQuery(): void {
    this.#total *= this.#queryMax;
    const outer = this.#outer.pop();
    this.#calls = outer?.calls ?? [];
    this.#factors = outer?.factors ?? [1];
    this.#queryMax = outer?.queryMax ?? 1;
  }

  /** Why this call is rejected; undefined if it is allowed. Call leaveCall() afterwards. */
  enterCall(name: string, call: AstNode): string | undefined {
    const args = nodesOf(call["children"]);
    if (isCollecting(name, args)) {
      if (call["class"] === "WINDOW") return `${name}() is not allowed as a window function: its result would be copied to every row`;
      this.#collects = true;
      this.#collectsInside ||= this.#outer.length > 1;
    }
    if (name === "unnest") this.addUnnest();
    // A chain a || b || c is parsed as nested calls; the outermost one has counted all of them.
    const factor = name === "||" && this.#calls.at(-1) === "||" ? 1 : factorOf(name, args);
    if (typeof factor === "string") return factor;
    const product = (this.#factors.at(-1) ?? 1) * Math.max(1, factor);
    this.#calls.push(name);
    this.#factors.push(product);
    this.#queryMax = Math.max(this.#queryMax, product);
    return undefined;
  }

  leaveCall(): void {
    this.#calls.pop();
    this.#factors.pop();
  }

  /** Why the statement as a whole is rejected. */
  problem(): string | undefined {
    if (this.#isRecursive && this.#total > recursiveGrowthMax) {
      return "a recursive query may not lengthen texts or lists in each iteration; move such functions out of it or split the query";
    }
    if ((this.#collects && this.#unnests) || (this.#collectsInside && this.#copiesRows)) {
      return "list(), string_agg() and the like can stand only in the outermost SELECT when there are joins, scalar subqueries or unnest()";
    }
    if (this.#longestLiteral * this.#total > lengthMax) {
      return "it could make values longer than 64 KiB; use shorter literals or fewer of replace, repeat, || and the like";
    }
    return undefined;
  }
}

/** min, max and arg_max accept a number of results as their last argument. */
function isCollecting(name: string, args: AstNode[]): boolean {
  if (collecting.has(name)) return true;
  if (name === "min" || name === "max") return args.length > 1;
  return /^(arg_?(min|max)|(min|max)_by)/.test(name) && args.length > 2;
}

function factorOf(name: string, args: AstNode[]): number | string {
  const fixed = fixedFactors[name];
  if (fixed !== undefined) return fixed;
  if (joining.has(name)) return args.filter((arg) => arg["class"] !== "CONSTANT").length;
  switch (name) {
    case "||":
      return chainLength(args);
    case "repeat":
      return literalCount(name, args[1]);
    case "lpad":
    case "rpad": {
      const count = literalCount(name, args[1]);
      return typeof count === "string" ? count : count / storedLengthMin;
    }
    case "range":
    case "generate_series":
      return listProblem(name, args) ?? 1;
    case "replace":
      return shortLiteral(name, "replacement", args[2], Math.max(1, textLength(args[1])));
    case "regexp_replace":
      return shortLiteral(name, "replacement", args[2], 1);
    case "array_to_string":
      return shortLiteral(name, "separator", args[1], 1);
    case "string_agg":
    case "group_concat":
    case "listagg":
      return args.length < 2 ? 1 : shortLiteral(name, "separator", args[1], 1);
    case "format":
    case "printf":
      return formatProblem(name, args[0]) ?? args.length;
    default:
      return 1;
  }
}

/** Number of non-literal values in a chain of ||. */
function chainLength(args: AstNode[]): number {
  return args.reduce((sum, arg) => {
    if (arg["class"] === "FUNCTION" && arg["function_name"] === "||") return sum + chainLength(nodesOf(arg["children"]));
    return sum + (arg["class"] === "CONSTANT" ? 0 : 1);
  }, 0);
}

function literalCount(name: string, arg: AstNode | undefined): number | string {
  const count = literalOf(arg);
  return typeof count === "number" && count <= lengthMax
    ? count
    : `the length given to ${name}() must be a number literal of at most ${lengthMax}`;
}

function textLength(arg: AstNode | undefined): number {
  const text = literalOf(arg);
  return typeof text === "string" ? text.length : 1;
}

function shortLiteral(name: string, what: string, arg: AstNode | undefined, perLength: number): number | string {
  const text = literalOf(arg);
  if (typeof text !== "string") return `the ${what} given to ${name}() must be a string literal`;
  return text.length / perLength;
}

/** As scalars, these create whole lists at once. In FROM they produce rows lazily and need no limit. */
function listProblem(name: string, args: AstNode[]): string | undefined {
  const numbers = args.map(literalOf);
  const [first, second, step = 1] = numbers as (number | undefined)[];
  const isNumbers = numbers.every((value) => typeof value === "number") && step !== 0 && first !== undefined;
  const length = isNumbers ? Math.abs(((second ?? first) - (second === undefined ? 0 : first)) / step) : Number.POSITIVE_INFINITY;
  if (length <= listLengthMax) return undefined;
  return `${name}() as a value takes number literals and makes at most ${listLengthMax} elements; write FROM ${name}(…) for more`;
}

/** Widths are part of the format: `%1000000000d` is a gigabyte. */
function formatProblem(name: string, arg: AstNode | undefined): string | undefined {
  const text = textOf(literalOf(arg));
  if (text === "" || /\d{4}|\*|\{[^{}]*\{/.test(text)) {
    return `the format given to ${name}() must be a string literal with widths below 1000`;
  }
  return undefined;
}
