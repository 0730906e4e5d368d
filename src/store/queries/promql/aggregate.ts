import type { Aggregation } from "./ast.ts";
import type { Labels } from "./samples.ts";
import { keyOf, onlyLabels, type VectorValue, withoutLabels } from "./vector.ts";

/** `parameter` of topk, bottomk and quantile. */
export function aggregate({ operator, grouping }: Aggregation, vector: readonly VectorValue[], parameter: number): VectorValue[] {
  const dropped = new Set([...grouping.labels, "__name__"]);
  const groups = new Map<string, { labels: Labels; members: VectorValue[] }>();
  for (const each of vector) {
    const labels = grouping.without ? withoutLabels(each.labels, dropped) : onlyLabels(each.labels, grouping.labels);
    const key = keyOf(labels);
    const found = groups.get(key);
    if (found) found.members.push(each);
    else groups.set(key, { labels, members: [each] });
  }
  if (operator === "topk" || operator === "bottomk")
    return [...groups.values()].flatMap(({ members }) => ranked(members, parameter, operator === "topk"));
  return [...groups.values()].map(({ labels, members }) => ({
    labels,
    value: reduce(
      operator,
      members.map(({ value }) => value),
      parameter,
    ),
  }));
}

function ranked(members: readonly VectorValue[], count: number, isTop: boolean): VectorValue[] {
  // NaN comes last in either order.
  const rank = ({ value }: VectorValue): number => (Number.isNaN(value) ? Number.NEGATIVE_INFINITY : isTop ? value : -value);
  return [...members].sort((a, b) => rank(b) - rank(a)).slice(0, Math.max(0, Math.floor(count)));
}

function reduce(operator: string, values: readonly number[], parameter: number): number {
  const sum = values.reduce((total, value) => total + value, 0);
  const mean = sum / values.length;
  const variance = (): number => values.reduce((total, value) => total + (value - mean) ** 2, 0) / values.length;
  switch (operator) {
    case "sum":
      return sum;
    case "avg":
      return mean;
    case "count":
      return values.length;
    case "group":
      return 1;
    case "min":
      return extreme(values, (a, b) => a < b);
    case "max":
      return extreme(values, (a, b) => a > b);
    case "stdvar":
      return variance();
    case "stddev":
      return Math.sqrt(variance());
    default:
      return quantile(values, parameter);
  }
}

/** NaN counts only when there is nothing else. */
function extreme(values: readonly number[], isBetter: (a: number, b: number) => boolean): number {
  return values.reduce((best, value) => (Number.isNaN(best) || isBetter(value, best) ? value : best), Number.NaN);
}

function quantile(values: readonly number[], share: number): number {
  if (Number.isNaN(share)) return Number.NaN;
  if (share < 0) return Number.NEGATIVE_INFINITY;
  if (share > 1) return Number.POSITIVE_INFINITY;
  const sorted = [...values].sort((a, b) => a - b);
  const rank = share * (sorted.length - 1);
  const low = sorted[Math.floor(rank)] ?? Number.NaN;
  const high = sorted[Math.ceil(rank)] ?? Number.NaN;
  return low + (high - low) * (rank - Math.floor(rank));
}
