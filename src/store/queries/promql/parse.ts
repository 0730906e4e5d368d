/**
 * Parses PromQL into a tree. The text is recognised by Prometheus' editor grammar (`@prometheus-io/lezer-promql`), which is lenient about
 * binding: it applies the offset of `a + b offset 5m` to the sum, and the sign of `-2 ^ 2` to the number. So operands and operators are
 * flattened and combined again by the precedence of the Prometheus server.
 */

import { parser } from "@prometheus-io/lezer-promql";
import type { CoralError } from "../../../base/errors.ts";
import type { Aggregation, Binary, BinaryOperator, Expression, Matcher, Matching, Selector, Timing } from "./ast.ts";
import { typeOf, wrongAggregation, wrongBinary, wrongCall } from "./check-types.ts";
import { functions } from "./functions.ts";
import { durationMs, numberValue, promqlError, textValue } from "./literals.ts";

type SyntaxNode = ReturnType<ReturnType<typeof parser.parse>["resolve"]>;

const maxLength = 4_096;
const maxDepth = 250;
/** Default step of a subquery: Prometheus' default evaluation interval. */
const defaultStepMs = 60_000;

/** Higher binds tighter. A sign binds like multiplication: `-2 ^ 2` is `-(2 ^ 2)`, `-2 * 3` is `(-2) * 3`. */
const precedence: Readonly<Record<BinaryOperator, number>> = {
  or: 1,
  and: 2,
  unless: 2,
  "==": 3,
  "!=": 3,
  ">": 3,
  "<": 3,
  ">=": 3,
  "<=": 3,
  "+": 4,
  "-": 4,
  "*": 5,
  "/": 5,
  "%": 5,
  atan2: 5,
  "^": 6,
};
const signPrecedence = 6;

type Operation = Pick<Binary, "operator" | "isBool" | "matching"> & { at: number };
type Piece =
  | { kind: "operand"; expression: Expression; isOpen: boolean }
  | { kind: "operation"; operation: Operation }
  | { kind: "sign"; isNegative: boolean; at: number };

/** Throws `invalid` with the position of the error. */
export function parsePromql(source: string): Expression {
  if (source.length > maxLength) throw promqlError(source, 0, `the expression has more than ${maxLength} characters`);
  if (source.trim() === "") throw promqlError(source, 0, "the expression is empty");
  const tree = parser.parse(source);
  const { topNode } = tree;
  throwSyntaxError(source, topNode);
  const node = topNode.firstChild;
  if (node === null) throw promqlError(source, 0, "the expression is empty");
  const expression = new TreeReader(source).read(node);
  const type = typeOf(expression);
  if (type === "range") throw promqlError(source, 0, "a range vector has no single value; wrap it in rate() or another range function");
  if (type === "text") throw promqlError(source, 0, "a string alone is not a query");
  return expression;
}

function throwSyntaxError(source: string, top: SyntaxNode): void {
  let at: SyntaxNode | undefined;
  const cursor = top.cursor();
  do {
    if (cursor.type.isError && (at === undefined || cursor.from < at.from)) at = cursor.node;
  } while (cursor.next());
  if (at === undefined) return;
  const rest = source.slice(at.from).trimStart();
  const word = /([A-Za-z_:][A-Za-z0-9_:]*)\s*$/.exec(source.slice(0, at.from))?.[1];
  if (rest.startsWith("(") && word !== undefined)
    throw promqlError(source, at.from, `unknown function ${word}(); docs/metrics.md lists the supported ones`);
  const variable = /^\$\{?\w+\}?/.exec(rest)?.[0];
  if (variable !== undefined)
    throw promqlError(source, at.from, `${variable} is a variable of a dashboard; write its value, such as 5m for $__rate_interval`);
  const within = at.parent?.name ?? "";
  if (within.startsWith("LabelMatchers") || within.endsWith("LabelMatcher"))
    throw promqlError(source, at.from, 'a label matcher needs a quoted string, such as {route="/a"}');
  throw promqlError(source, at.from, rest === "" ? "unexpected end of input" : "unexpected text");
}

class TreeReader {
  readonly #source: string;
  #depth = 0;

  constructor(source: string) {
    this.#source = source;
  }

  read(node: SyntaxNode): Expression {
    const pieces: Piece[] = [];
    this.#flatten(node, pieces);
    return new Combiner(this.#source, pieces).combine();
  }

  /** Appends operands, operators and signs from left to right. A parenthesised expression stays one operand. */
  #flatten(node: SyntaxNode, into: Piece[]): void {
    if (++this.#depth > maxDepth) throw this.#error(node, "the expression is nested too deeply");
    this.#flattenAny(node, into);
    this.#depth--;
  }

  #flattenAny(node: SyntaxNode, into: Piece[]): void {
    const parts = childrenOf(node);
    switch (node.name) {
      case "BinaryExpr": {
        this.#flatten(this.#part(node, parts[0]), into);
        into.push({ kind: "operation", operation: this.#operation(node, parts.slice(1, -1)) });
        return this.#flatten(this.#part(node, parts.at(-1)), into);
      }
      case "UnaryExpr":
        into.push({ kind: "sign", isNegative: this.#text(this.#part(node, parts[0])) === "-", at: node.from });
        return this.#flatten(this.#part(node, parts[1]), into);
      case "NumberDurationLiteral":
        return this.#number(node, into);
      case "OffsetExpr":
      case "StepInvariantExpr":
      case "MatrixSelector":
      case "SubqueryExpr": {
        this.#flatten(this.#part(node, parts[0]), into);
        const last = into.at(-1);
        if (last?.kind !== "operand") throw this.#error(node, "unexpected text");
        last.expression = this.#postfixed(node, parts, last);
        last.isOpen = true;
        return;
      }
      default:
        into.push({ kind: "operand", expression: this.#operand(node, parts), isOpen: node.name !== "ParenExpr" });
    }
  }

  #number(node: SyntaxNode, into: Piece[]): void {
    const [, sign = "", digits = ""] = /^([-+]?)\s*(.*)$/s.exec(this.#text(node)) ?? [];
    if (sign !== "") into.push({ kind: "sign", isNegative: sign === "-", at: node.from });
    into.push({ kind: "operand", expression: { type: "number", value: numberValue(digits) }, isOpen: true });
  }

  #operand(node: SyntaxNode, parts: readonly SyntaxNode[]): Expression {
    switch (node.name) {
      case "ParenExpr":
        return this.read(this.#part(node, parts[0]));
      case "StringLiteral":
        return { type: "text", value: this.#quoted(node) };
      case "VectorSelector":
        return this.#selector(node, parts);
      case "FunctionCall":
        return this.#call(node, parts);
      case "AggregateExpr":
        return this.#aggregation(node, parts);
      default:
        throw this.#error(node, "this syntax is not supported");
    }
  }

  #operation(node: SyntaxNode, parts: readonly SyntaxNode[]): Operation {
    const [sign, ...modifiers] = parts;
    const operator = this.#text(this.#part(node, sign)).toLowerCase();
    if (!Object.hasOwn(precedence, operator)) throw this.#error(sign ?? node, "this operator is not supported");
    const found: Operation = { operator: operator as BinaryOperator, isBool: false, at: sign?.from ?? node.from };
    for (const modifier of modifiers) {
      if (modifier.name === "BoolModifier") found.isBool = true;
      else if (modifier.name === "MatchingModifierClause") found.matching = this.#matching(modifier);
      else throw this.#error(modifier, "this modifier is not supported");
    }
    return found;
  }

  #matching(node: SyntaxNode): Matching {
    const [word, labels, group, include] = childrenOf(node);
    return {
      on: word?.name === "On",
      labels: this.#labels(labels),
      ...(group && { group: { side: group.name === "GroupLeft" ? "left" : "right", include: this.#labels(include) } }),
    };
  }

  #labels(node: SyntaxNode | undefined): string[] {
    return node ? childrenOf(node).map((label) => (label.name === "LabelName" ? this.#text(label) : this.#quoted(label))) : [];
  }

  #call(node: SyntaxNode, parts: readonly SyntaxNode[]): Expression {
    const name = this.#text(this.#part(node, parts[0]));
    if (!Object.hasOwn(functions, name))
      throw this.#error(node, `${name}() is not supported; docs/metrics.md lists the supported functions`);
    const call: Expression = { type: "call", name, args: childrenOf(this.#part(node, parts[1])).map((arg) => this.#nested(arg)) };
    const why = wrongCall(call);
    if (why !== undefined) throw this.#error(node, why);
    return call;
  }

  #nested(node: SyntaxNode): Expression {
    if (++this.#depth > maxDepth) throw this.#error(node, "the expression is nested too deeply");
    const expression = this.read(node);
    this.#depth--;
    return expression;
  }

  #aggregation(node: SyntaxNode, parts: readonly SyntaxNode[]): Expression {
    const operator = this.#text(this.#part(node, parts[0])).toLowerCase();
    if (operator === "limitk" || operator === "limit_ratio") throw this.#error(node, `${operator} is not supported`);
    const modifier = parts.find(({ name }) => name === "AggregateModifier");
    const [word, labels] = modifier ? childrenOf(modifier) : [];
    const body = parts.find(({ name }) => name === "FunctionCallBody");
    const args = childrenOf(this.#part(node, body)).map((arg) => this.#nested(arg));
    const expression = args.at(-1);
    if (expression === undefined) throw this.#error(node, `${operator} needs series`);
    const aggregation: Aggregation = {
      type: "aggregation",
      operator,
      grouping: { without: word?.name === "Without", labels: this.#labels(labels) },
      expression,
      ...(args.length > 1 && args[0] && { parameter: args[0] }),
    };
    const why = wrongAggregation(aggregation, args.length);
    if (why !== undefined) throw this.#error(node, why);
    return aggregation;
  }

  #selector(node: SyntaxNode, parts: readonly SyntaxNode[]): Selector {
    const matchers: Matcher[] = [];
    for (const part of parts) {
      if (part.name === "Identifier") matchers.push({ label: "__name__", operator: "=", value: this.#text(part) });
      else matchers.push(...childrenOf(part).map((matcher) => this.#matcher(matcher)));
    }
    if (!matchers.some(({ operator, value }) => operator === "=" && value !== "") && !matchers.some(({ label }) => label === "__name__"))
      throw this.#error(node, "a selector needs a metric name or a non-empty equality matcher");
    return { type: "selector", matchers, offsetMs: 0 };
  }

  /** `label="value"`. A lone string is a metric name that is not an identifier, such as "http.server.duration". */
  #matcher(node: SyntaxNode): Matcher {
    if (node.name === "QuotedLabelName") return { label: "__name__", operator: "=", value: this.#quoted(node) };
    const [label, operator, value] = childrenOf(node);
    return {
      label: label?.name === "LabelName" ? this.#text(label) : this.#quoted(this.#part(node, label)),
      operator: this.#text(this.#part(node, operator)) as Matcher["operator"],
      value: this.#quoted(this.#part(node, value)),
    };
  }

  /** Applies `[5m]`, `[1h:1m]`, `offset 1h` and `@ end()` to the operand before them. */
  #postfixed(node: SyntaxNode, parts: readonly SyntaxNode[], { expression, isOpen }: Piece & { kind: "operand" }): Expression {
    const type = typeOf(expression);
    if (node.name === "MatrixSelector") {
      if (expression.type !== "selector" || type !== "vector" || !isOpen)
        throw this.#error(node, "a range is only allowed after a selector; for other expressions use a subquery such as [1h:1m]");
      if (expression.offsetMs !== 0 || expression.at !== undefined) throw this.#error(node, "offset and @ must follow the range");
      return { ...expression, rangeMs: this.#rangeMs(parts[1], node) };
    }
    if (node.name === "SubqueryExpr") {
      if (type !== "vector") throw this.#error(node, "a subquery needs an instant vector");
      const stepMs = parts[2] ? this.#rangeMs(parts[2], node) : defaultStepMs;
      return { type: "subquery", expression, rangeMs: this.#rangeMs(parts[1], node), stepMs, offsetMs: 0 };
    }
    const word = node.name === "OffsetExpr" ? "offset" : "@";
    if ((expression.type !== "selector" && expression.type !== "subquery") || !isOpen)
      throw this.#error(node, `${word} is only allowed after a selector or a subquery`);
    if (word === "offset") {
      if (expression.offsetMs !== 0) throw this.#error(node, "offset is set twice");
      return { ...expression, offsetMs: this.#duration(this.#part(node, parts[2])) };
    }
    if (expression.at !== undefined) throw this.#error(node, "@ is set twice");
    return { ...expression, at: this.#at(this.#part(node, parts[2])) };
  }

  #at(node: SyntaxNode): NonNullable<Timing["at"]> {
    if (node.name === "AtModifierPreprocessors") return node.firstChild?.name === "AtStart" ? "start" : "end";
    const [, sign = "", digits = ""] = /^([-+]?)\s*(.*)$/s.exec(this.#text(node)) ?? [];
    const seconds = numberValue(digits) * (sign === "-" ? -1 : 1);
    if (!Number.isFinite(seconds)) throw this.#error(node, "@ needs a timestamp in seconds since 1970, start() or end()");
    return seconds * 1_000;
  }

  #rangeMs(node: SyntaxNode | undefined, parent: SyntaxNode): number {
    const rangeMs = this.#duration(this.#part(parent, node));
    if (rangeMs <= 0) throw this.#error(parent, "range and step must be positive");
    return rangeMs;
  }

  #duration(node: SyntaxNode): number {
    const parts = childrenOf(node);
    const [first, second] = parts;
    if (first?.name === "UnaryOp" && second && parts.length === 2) return this.#duration(second) * (this.#text(first) === "-" ? -1 : 1);
    if (first?.name !== "NumberDurationLiteralInDurationContext" || parts.length !== 1)
      throw this.#error(node, "expected a duration such as 5m; duration expressions are not supported");
    const ms = durationMs(this.#text(first));
    if (!Number.isFinite(ms)) throw this.#error(node, "expected a duration such as 5m");
    return ms;
  }

  #quoted(node: SyntaxNode): string {
    const text = this.#text(node);
    // The grammar accepts a string without its closing quote.
    if (text.length < 2 || text.at(-1) !== text[0]) throw this.#error(node, "unterminated string");
    return textValue(text);
  }

  #text(node: SyntaxNode): string {
    return this.#source.slice(node.from, node.to);
  }

  #part(parent: SyntaxNode, part: SyntaxNode | undefined): SyntaxNode {
    if (part === undefined) throw this.#error(parent, "unexpected end of input");
    return part;
  }

  #error(node: SyntaxNode, why: string): CoralError {
    return promqlError(this.#source, node.from, why);
  }
}

/** Combines operands, operators and signs by precedence climbing. */
class Combiner {
  readonly #source: string;
  readonly #pieces: readonly Piece[];
  #at = 0;

  constructor(source: string, pieces: readonly Piece[]) {
    this.#source = source;
    this.#pieces = pieces;
  }

  combine(): Expression {
    return this.#climb(0);
  }

  #climb(least: number): Expression {
    let left = this.#prefixed();
    for (;;) {
      const next = this.#pieces[this.#at];
      if (next?.kind !== "operation") return left;
      const { at, ...operation } = next.operation;
      const level = precedence[operation.operator];
      if (level < least) return left;
      this.#at++;
      // Only powers are right-associative: 2 ^ 3 ^ 2 is 2 ^ 9.
      const right = this.#climb(operation.operator === "^" ? level : level + 1);
      const binary: Binary = { type: "binary", left, right, ...operation };
      const why = wrongBinary(binary);
      if (why !== undefined) throw promqlError(this.#source, at, why);
      left = binary;
    }
  }

  #prefixed(): Expression {
    const piece = this.#pieces[this.#at++];
    if (piece?.kind === "operand") return piece.expression;
    if (piece?.kind !== "sign") throw promqlError(this.#source, this.#source.length, "unexpected end of input");
    const expression = this.#climb(signPrecedence);
    const type = typeOf(expression);
    if (type === "range" || type === "text")
      throw promqlError(this.#source, piece.at, "a sign is only allowed on scalars and instant vectors");
    if (!piece.isNegative) return expression;
    return expression.type === "number" ? { type: "number", value: -expression.value } : { type: "negation", expression };
  }
}

/** Named child nodes; punctuation has no name in the grammar. */
function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) if (child.name !== "LineComment") found.push(child);
  return found;
}
