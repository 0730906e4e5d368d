import { CoralError } from "../../../base/errors.ts";
import type { Arithmetic, Binary, Comparison } from "./ast.ts";
import type { Labels } from "./samples.ts";
import { keyOf, onlyLabels, type VectorValue, withLabel, withoutLabels, withoutName } from "./vector.ts";

/** Comparisons return a boolean. */
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
    case "atan2":
      return Math.atan2(left, right);
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

/** Combines the values of both sides that have equal labels. */
export function combineVectors(expression: Binary, left: readonly VectorValue[], right: readonly VectorValue[]): VectorValue[] {
  const { operator } = expression;
  const keyed = ({ labels }: VectorValue): string => keyOf(matchedLabels(expression, labels));
  if (operator === "and" || operator === "unless") {
    const keys = new Set(right.map(keyed));
    return left.filter((each) => keys.has(keyed(each)) === (operator === "and"));
  }
  if (operator === "or") {
    const keys = new Set(left.map(keyed));
    return [...left, ...right.filter((each) => !keys.has(keyed(each)))];
  }
  return pair(expression, operator, left, right, keyed);
}

/** One-to-one matching; many-to-one with group_left, one-to-many with group_right. */
function pair(
  expression: Binary,
  operator: Arithmetic | Comparison,
  left: readonly VectorValue[],
  right: readonly VectorValue[],
  keyed: (value: VectorValue) => string,
): VectorValue[] {
  const group = expression.matching?.group;
  const [many, one] = group?.side === "right" ? [right, left] : [left, right];
  const ones = new Map<string, VectorValue>();
  for (const each of one) {
    const key = keyed(each);
    if (ones.has(key)) throw ambiguous(group?.side === "right" ? "left" : "right", operator, each.labels);
    ones.set(key, each);
  }
  const found: VectorValue[] = [];
  const seen = new Set<string>();
  for (const each of many) {
    const key = keyed(each);
    const other = ones.get(key);
    if (other === undefined) continue;
    const [leftValue, rightValue] = group?.side === "right" ? [other.value, each.value] : [each.value, other.value];
    const value = calculate(operator, leftValue, rightValue);
    if (value === false && !expression.isBool) continue;
    const isFilter = typeof value === "boolean" && !expression.isBool;
    const labels = pairLabels(expression, each.labels, other.labels, isFilter);
    const identity = group ? keyOf(labels) : key;
    if (seen.has(identity)) throw ambiguous(group?.side ?? "left", operator, each.labels);
    seen.add(identity);
    found.push({ labels, value: isFilter ? leftValue : Number(value) });
  }
  return found;
}

/** A filtering comparison keeps the metric name; every other operator drops it. */
function pairLabels({ matching }: Binary, many: Labels, one: Labels, isFilter: boolean): Labels {
  const named = isFilter ? many : withoutName(many);
  if (matching === undefined) return named;
  if (matching.group === undefined)
    return matching.on ? onlyLabels(named, matching.labels) : withoutLabels(named, new Set(matching.labels));
  return matching.group.include.reduce((labels, name) => withLabel(labels, name, one[name] ?? ""), named);
}

function matchedLabels({ matching }: Binary, labels: Labels): Labels {
  if (matching === undefined) return withoutName(labels);
  return matching.on ? onlyLabels(labels, matching.labels) : withoutLabels(labels, new Set([...matching.labels, "__name__"]));
}

function ambiguous(side: string, operator: string, labels: Labels): CoralError {
  return new CoralError({
    code: "invalid",
    message: `Cannot evaluate "${operator}": several series on the ${side} side match the same labels, such as ${JSON.stringify(labels)}; aggregate them first, or use group_left or group_right`,
  });
}
