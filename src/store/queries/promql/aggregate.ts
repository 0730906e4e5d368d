import type { Aggregation } from "./ast.ts";
import { numberText } from "./literals.ts";
import type { Labels } from "./samples.ts";
import { maximum, mean, minimum, quantile, variance } from "./statistics.ts";
import { keyOf, onlyLabels, type VectorValue, withoutLabels } from "./vector.ts";

/** `parameter`: k of topk and bottomk, φ of quantile, the label name of count_values. */
export function aggregate({ operator, grouping }: Aggregation, vector: readonly VectorValue[], parameter: number | string): VectorValue[] {
  const dropped = new Set([...grouping.labels, "__name__"]);
  const groups = new Map<string, { labels: Labels; members: VectorValue[] }>();
  for (const each of vector) {
    let labels = grouping.without ? withoutLabels(each.labels, dropped) : onlyLabels(each.labels, grouping.labels);
    if (typeof parameter === "string") labels = { ...labels, [parameter]: numberText(each.value) };
    const key = keyOf(labels);
    const found = groups.get(key);
    if (found) found.members.push(each);
    else groups.set(key, { labels, members: [each] });
  }
  const number = typeof parameter === "number" ? parameter : Number.NaN;
  if (operator === "topk" || operator === "bottomk")
    return [...groups.values()].flatMap(({ members }) => ranked(members, number, operator === "topk"));
  return [...groups.values()].map(({ labels, members }) => ({
    labels,
    value: reduce(
      operator,
      members.map(({ value }) => value),
      number,
    ),
  }));
}

function ranked(members: readonly VectorValue[], count: number, isTop: boolean): VectorValue[] {
  return sortedByValue(members, isTop).slice(0, Math.max(0, Math.floor(count)));
}

/** NaN sorts last in both directions, as in Prometheus. */
export function sortedByValue(vector: readonly VectorValue[], isFalling: boolean): VectorValue[] {
  return [...vector].sort((a, b) => {
    if (Number.isNaN(a.value) || Number.isNaN(b.value)) return Number(Number.isNaN(a.value)) - Number(Number.isNaN(b.value));
    return a.value === b.value ? 0 : a.value > b.value === isFalling ? -1 : 1;
  });
}

function reduce(operator: string, values: readonly number[], parameter: number): number {
  switch (operator) {
    case "sum":
      return values.reduce((total, value) => total + value, 0);
    case "avg":
      return mean(values);
    case "count":
    case "count_values":
      return values.length;
    case "group":
      return 1;
    case "min":
      return minimum(values);
    case "max":
      return maximum(values);
    case "stdvar":
      return variance(values);
    case "stddev":
      return Math.sqrt(variance(values));
    default:
      return quantile(values, parameter);
  }
}
