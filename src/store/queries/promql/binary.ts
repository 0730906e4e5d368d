import { CoralError } from "../../../base/errors.ts";
import type { Arithmetic, Binary, Comparison } from "./ast.ts";
import type { Labels } from "./samples.ts";
import { keyOf, onlyLabels, type VectorValue, withoutLabels, withoutName } from "./vector.ts";

/** True or false for comparisons. */
export function calculate(operator: Arithmetic | Comparison, left: number, right: number): number | boolean {
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
    case "%":
      return left % right;
    case "^":
      return left ** right;
    case "==":
      return left === right;
    case "!=":
      return left !== right;
    case ">":
      return left > right;
    case "<":
      return left < right;
    case ">=":
      return left >= right;
    case "<=":
      return left <= right;
  }
}

/** Each value with the one on the other side that has the same labels. */
export function combineVectors(expression: Binary, left: readonly VectorValue[], right: readonly VectorValue[]): VectorValue[] {
  const { operator, isBool } = expression;
  const keyed = (labels: Labels): string => keyOf(matchedLabels(expression, labels));
  if (operator === "and" || operator === "unless") {
    const keys = new Set(right.map(({ labels }) => keyed(labels)));
    return left.filter(({ labels }) => keys.has(keyed(labels)) === (operator === "and"));
  }
  if (operator === "or") {
    const keys = new Set(left.map(({ labels }) => keyed(labels)));
    return [...left, ...right.filter(({ labels }) => !keys.has(keyed(labels)))];
  }
  const others = new Map<string, VectorValue>();
  for (const each of right) {
    const key = keyed(each.labels);
    if (others.has(key)) throw ambiguous("right", operator, each.labels);
    others.set(key, each);
  }
  const found: VectorValue[] = [];
  const seen = new Set<string>();
  for (const each of left) {
    const key = keyed(each.labels);
    const other = others.get(key);
    if (other === undefined) continue;
    if (seen.has(key)) throw ambiguous("left", operator, each.labels);
    seen.add(key);
    const value = calculate(operator, each.value, other.value);
    const labels = expression.matching ? matchedLabels(expression, each.labels) : withoutName(each.labels);
    if (typeof value === "number") found.push({ labels, value });
    else if (isBool) found.push({ labels, value: Number(value) });
    else if (value) found.push({ labels: expression.matching ? labels : each.labels, value: each.value });
  }
  return found;
}

function matchedLabels({ matching }: Binary, labels: Labels): Labels {
  if (matching === undefined) return withoutName(labels);
  return matching.on ? onlyLabels(labels, matching.labels) : withoutLabels(labels, new Set([...matching.labels, "__name__"]));
}

function ambiguous(side: string, operator: string, labels: Labels): CoralError {
  return new CoralError({
    code: "invalid",
    message: `Cannot evaluate "${operator}": several series on its ${side} side match the same one, such as ${JSON.stringify(labels)}; aggregate them first`,
  });
}
