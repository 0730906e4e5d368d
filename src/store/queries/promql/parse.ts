/** PromQL's common part: selectors, ranges, offset, functions, aggregations, arithmetic, comparison and set operators. */

import type { CoralError } from "../../../base/errors.ts";
import type { Aggregation, Binary, BinaryOperator, Expression, Matcher, Selector } from "./ast.ts";
import { functions } from "./functions.ts";
import { durationTokenMs, promqlError, type Token, textTokenValue, tokensOf } from "./tokens.ts";

export const aggregators: ReadonlySet<string> = new Set([
  "sum",
  "avg",
  "min",
  "max",
  "count",
  "stddev",
  "stdvar",
  "group",
  "topk",
  "bottomk",
  "quantile",
]);
const withParameter: ReadonlySet<string> = new Set(["topk", "bottomk", "quantile"]);

/** Loosest first; those in one row bind alike. */
const precedence: readonly (readonly BinaryOperator[])[] = [
  ["or"],
  ["and", "unless"],
  ["==", "!=", ">", "<", ">=", "<="],
  ["+", "-"],
  ["*", "/", "%"],
];
const comparisons: ReadonlySet<string> = new Set(["==", "!=", ">", "<", ">=", "<="]);
const maxDepth = 40;

/** Throws `invalid` with the place. */
export function parsePromql(source: string): Expression {
  return new Parser(source).parse();
}

class Parser {
  readonly #source: string;
  readonly #tokens: Token[];
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    this.#source = source;
    this.#tokens = tokensOf(source);
  }

  parse(): Expression {
    if (this.#now().kind === "end") throw this.#error("it is empty");
    const expression = this.#expression();
    if (this.#now().kind !== "end") throw this.#error("unexpected text after the expression");
    if (expression.type === "selector" && expression.rangeMs !== undefined)
      throw promqlError(this.#source, 0, "a range has no single value; put it into rate() or another function of ranges");
    return expression;
  }

  #now(): Token {
    return this.#tokens[this.#at] ?? { kind: "end", text: "", at: this.#source.length };
  }

  #expression(): Expression {
    if (++this.#depth > maxDepth) throw this.#error("it is nested too deeply");
    const expression = this.#binary(0);
    this.#depth--;
    return expression;
  }

  #binary(level: number): Expression {
    const operators = precedence[level];
    if (operators === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const operator = operators.find((one) => one === this.#now().text.toLowerCase() && ["symbol", "word"].includes(this.#now().kind));
      if (operator === undefined) return left;
      this.#at++;
      const { isBool, matching } = this.#modifiers(operator);
      const right = this.#binary(level + 1);
      left = { type: "binary", operator, left, right, isBool, ...(matching && { matching }) };
    }
  }

  #modifiers(operator: BinaryOperator): Pick<Binary, "isBool" | "matching"> {
    const isBool = this.#takeWord("bool");
    if (isBool && !comparisons.has(operator)) throw this.#error("bool belongs to comparisons");
    const word = this.#now().kind === "word" ? this.#now().text : "";
    if (word !== "on" && word !== "ignoring") return { isBool };
    this.#at++;
    const labels = this.#labelList();
    if (/^group_(left|right)$/.test(this.#now().text)) throw this.#error("group_left and group_right are not supported here");
    return { isBool, matching: { on: word === "on", labels } };
  }

  #unary(): Expression {
    if (this.#takeSymbol("+")) return this.#nested(() => this.#unary());
    // -2^2 is -(2^2).
    if (this.#takeSymbol("-")) return { type: "negation", expression: this.#nested(() => this.#unary()) };
    const base = this.#postfix(this.#primary());
    if (!this.#takeSymbol("^")) return base;
    const right = this.#nested(() => this.#unary());
    return { type: "binary", operator: "^", left: base, right, isBool: false };
  }

  #nested<T>(read: () => T): T {
    if (++this.#depth > maxDepth) throw this.#error("it is nested too deeply");
    const result = read();
    this.#depth--;
    return result;
  }

  #primary(): Expression {
    const token = this.#now();
    if (token.kind === "number") {
      this.#at++;
      return { type: "number", value: Number(token.text) };
    }
    if (this.#takeSymbol("(")) {
      const inner = this.#expression();
      this.#expectSymbol(")");
      return inner;
    }
    if (token.kind === "symbol" && token.text === "{") return this.#selector(undefined);
    if (token.kind !== "word") throw this.#error("a metric, a number or a function is expected");
    return this.#wordExpression(token.text);
  }

  #wordExpression(word: string): Expression {
    const next = this.#tokens[this.#at + 1];
    const lower = word.toLowerCase();
    const isAggregation = aggregators.has(lower) && (next?.text === "(" || next?.text === "by" || next?.text === "without");
    if (isAggregation) return this.#aggregation(lower);
    if (next?.kind === "symbol" && next.text === "(") return this.#call(word);
    if (lower === "inf" || lower === "nan") {
      this.#at++;
      return { type: "number", value: lower === "inf" ? Number.POSITIVE_INFINITY : Number.NaN };
    }
    this.#at++;
    return this.#selector(word);
  }

  #call(name: string): Expression {
    const known = functions[name];
    if (known === undefined || !Object.hasOwn(functions, name))
      throw this.#error(`unknown function; supported: ${Object.keys(functions).join(", ")}`);
    this.#at++;
    const args = this.#arguments();
    if (args.length < known.args.length - (known.optional ?? 0) || args.length > known.args.length)
      throw this.#error(`${name}() takes ${known.args.length} arguments`);
    for (const [index, arg] of args.entries()) {
      const isRange = arg.type === "selector" && arg.rangeMs !== undefined;
      if ((known.args[index] === "range") !== isRange)
        throw this.#error(isRange ? `${name}() takes no range` : `${name}() needs a range, such as ${name}(metric[5m])`);
    }
    return { type: "call", name, args };
  }

  #aggregation(operator: string): Aggregation {
    this.#at++;
    let grouping = this.#grouping();
    const args = this.#arguments();
    grouping ??= this.#grouping() ?? { without: false, labels: [] };
    const expected = withParameter.has(operator) ? 2 : 1;
    const expression = args.at(-1);
    if (args.length !== expected || expression === undefined) throw this.#error(`${operator} takes ${expected} arguments`);
    if (args.some((arg) => arg.type === "selector" && arg.rangeMs !== undefined)) throw this.#error(`${operator} takes no range`);
    const [parameter] = args;
    return { type: "aggregation", operator, grouping, expression, ...(expected === 2 && parameter ? { parameter } : {}) };
  }

  #grouping(): Aggregation["grouping"] | undefined {
    const word = this.#now().text;
    if (this.#now().kind !== "word" || (word !== "by" && word !== "without")) return undefined;
    this.#at++;
    return { without: word === "without", labels: this.#labelList() };
  }

  #labelList(): string[] {
    this.#expectSymbol("(");
    const labels: string[] = [];
    while (!this.#takeSymbol(")")) {
      labels.push(this.#label());
      if (!this.#takeSymbol(",") && this.#now().text !== ")") throw this.#error("a comma or ) is expected");
    }
    return labels;
  }

  #arguments(): Expression[] {
    this.#expectSymbol("(");
    const args: Expression[] = [];
    while (!this.#takeSymbol(")")) {
      args.push(this.#expression());
      if (!this.#takeSymbol(",") && this.#now().text !== ")") throw this.#error("a comma or ) is expected");
    }
    return args;
  }

  #selector(name: string | undefined): Selector {
    const matchers: Matcher[] = name === undefined ? [] : [{ label: "__name__", operator: "=", value: name }];
    if (this.#takeSymbol("{")) {
      while (!this.#takeSymbol("}")) {
        matchers.push(this.#matcher());
        if (!this.#takeSymbol(",") && this.#now().text !== "}") throw this.#error("a comma or } is expected");
      }
    }
    if (!matchers.some(({ operator, value }) => operator === "=" && value !== "") && !matchers.some(({ label }) => label === "__name__"))
      throw this.#error("a selector needs a name or a label that is equal to something");
    return { type: "selector", matchers, offsetMs: 0 };
  }

  /** `label="value"`; a text alone is a metric's name, for names such as "http.server.duration". */
  #matcher(): Matcher {
    const isText = this.#now().kind === "text";
    const label = this.#label();
    const operator = this.#now().text;
    if (isText && (operator === "," || operator === "}")) return { label: "__name__", operator: "=", value: label };
    if (operator !== "=" && operator !== "!=" && operator !== "=~" && operator !== "!~") throw this.#error("one of = != =~ !~ is expected");
    this.#at++;
    if (this.#now().kind !== "text") throw this.#error("a text in quotes is expected");
    const value = textTokenValue(this.#now().text);
    this.#at++;
    return { label, operator, value };
  }

  #label(): string {
    const token = this.#now();
    if (token.kind !== "word" && token.kind !== "text") throw this.#error("a label is expected");
    this.#at++;
    return token.kind === "text" ? textTokenValue(token.text) : token.text;
  }

  /** What may follow a selector: `[5m] offset 1h`. */
  #postfix(expression: Expression): Expression {
    let result = expression;
    for (;;) {
      if (this.#now().kind === "symbol" && this.#now().text === "[") {
        if (result.type !== "selector" || result.rangeMs !== undefined)
          throw this.#error("a range belongs to a selector; subqueries are not supported here");
        this.#at++;
        const rangeMs = this.#duration();
        if (this.#now().text.startsWith(":")) throw this.#error("subqueries are not supported here");
        this.#expectSymbol("]");
        if (rangeMs <= 0) throw this.#error("a range must be longer than zero");
        result = { ...result, rangeMs };
      } else if (this.#takeWord("offset")) {
        if (result.type !== "selector") throw this.#error("offset belongs to a selector");
        const sign = this.#takeSymbol("-") ? -1 : 1;
        result = { ...result, offsetMs: sign * this.#duration() };
      } else if (this.#now().text === "@") throw this.#error("@ is not supported here");
      else return result;
    }
  }

  #duration(): number {
    const { kind, text } = this.#now();
    if (kind !== "duration") throw this.#error("a duration such as 5m is expected");
    this.#at++;
    return durationTokenMs(text);
  }

  #takeSymbol(text: string): boolean {
    if (this.#now().kind !== "symbol" || this.#now().text !== text) return false;
    this.#at++;
    return true;
  }

  #takeWord(text: string): boolean {
    if (this.#now().kind !== "word" || this.#now().text !== text) return false;
    this.#at++;
    return true;
  }

  #expectSymbol(text: string): void {
    if (!this.#takeSymbol(text)) throw this.#error(`${text} is expected`);
  }

  #error(why: string): CoralError {
    return promqlError(this.#source, this.#now().at, why);
  }
}
