/** What an expression is at one time. */

import { CoralError } from "../../../base/errors.ts";
import { aggregate } from "./aggregate.ts";
import type { Binary, Call, Expression, Selector } from "./ast.ts";
import { calculate, combineVectors } from "./binary.ts";
import { functions } from "./functions.ts";
import { histogramQuantile } from "./histogram-quantile.ts";
import { instantValue, type Labels, type PromSeries, rangeSamples } from "./samples.ts";
import { type VectorValue, withoutName } from "./vector.ts";

export type Value = number | VectorValue[];

/** The series that each selector of the expression chose. */
export type ChosenSeries = ReadonlyMap<Selector, readonly PromSeries[]>;

export function evaluate(expression: Expression, chosen: ChosenSeries, atMs: number): Value {
  switch (expression.type) {
    case "number":
      return expression.value;
    case "negation": {
      const value = evaluate(expression.expression, chosen, atMs);
      return typeof value === "number" ? -value : value.map((each) => ({ labels: withoutName(each.labels), value: -each.value }));
    }
    case "selector":
      return select(expression, chosen, atMs);
    case "call":
      return call(expression, chosen, atMs);
    case "aggregation": {
      const parameter = expression.parameter === undefined ? Number.NaN : scalarOf(expression.parameter, chosen, atMs);
      return aggregate(expression, vectorOf(expression.expression, chosen, atMs), parameter);
    }
    case "binary":
      return binary(expression, chosen, atMs);
  }
}

function select(selector: Selector, chosen: ChosenSeries, atMs: number): VectorValue[] {
  const found: VectorValue[] = [];
  for (const series of chosen.get(selector) ?? []) {
    const value = instantValue(series, atMs - selector.offsetMs);
    if (value !== null) found.push({ labels: series.labels, value });
  }
  return found;
}

function call(expression: Call, chosen: ChosenSeries, atMs: number): Value {
  const { name, args } = expression;
  const known = functions[name];
  const [first, second] = args;
  if (known?.overRange && first?.type === "selector") return overRange(first, known.overRange, chosen, atMs);
  if (known?.ofValue && first) {
    const value = evaluate(first, chosen, atMs);
    const scalars = args.slice(1).map((arg) => scalarOf(arg, chosen, atMs));
    const read = known.ofValue;
    return typeof value === "number"
      ? read(value, ...scalars)
      : value.map((each) => ({ labels: withoutName(each.labels), value: read(each.value, ...scalars) }));
  }
  if (name === "time") return atMs / 1_000;
  if (first && second && name === "histogram_quantile")
    return histogramQuantile(scalarOf(first, chosen, atMs), vectorOf(second, chosen, atMs));
  if (first && name === "vector") return [{ labels: {}, value: scalarOf(first, chosen, atMs) }];
  if (first && name === "scalar") {
    const [only, ...others] = vectorOf(first, chosen, atMs);
    return only !== undefined && others.length === 0 ? only.value : Number.NaN;
  }
  if (first && name === "absent") return vectorOf(first, chosen, atMs).length === 0 ? [{ labels: labelsOfAbsent(first), value: 1 }] : [];
  throw new CoralError({ code: "unsupported", message: `Cannot evaluate ${name}(): it is not supported here` });
}

function overRange(
  selector: Selector,
  read: NonNullable<(typeof functions)[string]["overRange"]>,
  chosen: ChosenSeries,
  atMs: number,
): VectorValue[] {
  const endMs = atMs - selector.offsetMs;
  const found: VectorValue[] = [];
  for (const series of chosen.get(selector) ?? []) {
    const value = read(rangeSamples(series, endMs - (selector.rangeMs ?? 0), endMs));
    if (value !== null) found.push({ labels: withoutName(series.labels), value });
  }
  return found;
}

function labelsOfAbsent(expression: Expression): Labels {
  if (expression.type !== "selector") return {};
  const equal = expression.matchers.filter(({ label, operator }) => operator === "=" && label !== "__name__");
  return Object.fromEntries(equal.map(({ label, value }) => [label, value]));
}

function binary(expression: Binary, chosen: ChosenSeries, atMs: number): Value {
  const { operator, isBool } = expression;
  const left = evaluate(expression.left, chosen, atMs);
  const right = evaluate(expression.right, chosen, atMs);
  if (typeof left !== "number" && typeof right !== "number") return combineVectors(expression, left, right);
  if (operator === "and" || operator === "or" || operator === "unless")
    throw new CoralError({ code: "invalid", message: `Cannot evaluate "${operator}": both sides must be series, not numbers` });
  if (typeof left === "number" && typeof right === "number") {
    const value = calculate(operator, left, right);
    return typeof value === "boolean" ? Number(value) : value;
  }
  const vector = typeof left === "number" ? (right as VectorValue[]) : left;
  const found: VectorValue[] = [];
  for (const each of vector) {
    const value = calculate(operator, typeof left === "number" ? left : each.value, typeof right === "number" ? right : each.value);
    if (typeof value === "number") found.push({ labels: withoutName(each.labels), value });
    else if (isBool) found.push({ labels: withoutName(each.labels), value: Number(value) });
    else if (value) found.push(each);
  }
  return found;
}

function vectorOf(expression: Expression, chosen: ChosenSeries, atMs: number): VectorValue[] {
  const value = evaluate(expression, chosen, atMs);
  if (typeof value !== "number") return value;
  throw new CoralError({ code: "invalid", message: `Cannot evaluate the expression: series are needed where the number ${value} is` });
}

function scalarOf(expression: Expression, chosen: ChosenSeries, atMs: number): number {
  const value = evaluate(expression, chosen, atMs);
  if (typeof value === "number") return value;
  throw new CoralError({ code: "invalid", message: "Cannot evaluate the expression: a number is needed where series are" });
}
