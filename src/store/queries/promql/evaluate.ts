/** Evaluates an expression at one time. */

import { CoralError } from "../../../base/errors.ts";
import { aggregate, sortedByValue } from "./aggregate.ts";
import type { Aggregation, Binary, Call, Expression, Selector, Subquery, Timing } from "./ast.ts";
import { calculate, combineVectors } from "./binary.ts";
import { functions } from "./functions.ts";
import { histogramQuantile } from "./histogram-quantile.ts";
import type { LabelReplacer } from "./label-replacer.ts";
import { instantSample, type Labels, type PromSeries, rangeSamples } from "./samples.ts";
import { type VectorValue, withLabel, withoutName } from "./vector.ts";

export type Value = number | string | VectorValue[];

export interface Evaluation {
  /** Series loaded for each selector, and computed for each subquery. */
  series: ReadonlyMap<Selector | Subquery, readonly PromSeries[]>;
  /** Start and end of the whole query, milliseconds since 1970. */
  startMs: number;
  endMs: number;
  replacer: LabelReplacer;
}

/** The time at which a selector or subquery is read when the expression is evaluated at `atMs`. */
export function readingTime({ at, offsetMs }: Timing, query: Pick<Evaluation, "startMs" | "endMs">, atMs: number): number {
  const base = at === "start" ? query.startMs : at === "end" ? query.endMs : (at ?? atMs);
  return base - offsetMs;
}

export async function evaluate(expression: Expression, query: Evaluation, atMs: number): Promise<Value> {
  switch (expression.type) {
    case "number":
    case "text":
      return expression.value;
    case "negation": {
      const value = await evaluate(expression.expression, query, atMs);
      if (typeof value === "number") return -value;
      return seriesIn(value).map((each) => ({ labels: withoutName(each.labels), value: -each.value }));
    }
    case "selector":
      return select(expression, query, atMs).map(({ labels, value }) => ({ labels, value }));
    case "call":
      return await call(expression, query, atMs);
    case "aggregation":
      return await aggregation(expression, query, atMs);
    case "binary":
      return await binary(expression, query, atMs);
    case "subquery":
      throw unexpected("a range");
  }
}

async function aggregation(expression: Aggregation, query: Evaluation, atMs: number): Promise<Value> {
  const parameter = expression.parameter ? await evaluate(expression.parameter, query, atMs) : Number.NaN;
  const vector = await vectorOf(expression.expression, query, atMs);
  return aggregate(expression, vector, typeof parameter === "object" ? Number.NaN : parameter);
}

function select(selector: Selector, query: Evaluation, atMs: number): (VectorValue & { timeMs: number })[] {
  const timeMs = readingTime(selector, query, atMs);
  const found: (VectorValue & { timeMs: number })[] = [];
  for (const series of query.series.get(selector) ?? []) {
    const sample = instantSample(series, timeMs);
    if (sample !== null) found.push({ labels: series.labels, ...sample });
  }
  return found;
}

/** Functions in `functions` with an implementation run generically; the others depend on the expression or the evaluation time. */
async function call(expression: Call, query: Evaluation, atMs: number): Promise<Value> {
  const { name, args } = expression;
  const known = functions[name];
  if (known?.overRange) return await overRange(expression, query, atMs);
  if (known?.ofValue) return await ofValue(expression, known.ofValue, query, atMs);
  const [first, second] = args;
  if (name === "time") return atMs / 1_000;
  if (name === "pi") return Math.PI;
  if (first === undefined) throw unexpected("nothing");
  switch (name) {
    case "histogram_quantile":
      return histogramQuantile(await scalarOf(first, query, atMs), second ? await vectorOf(second, query, atMs) : []);
    case "vector":
      return [{ labels: {}, value: await scalarOf(first, query, atMs) }];
    case "scalar": {
      const [only, ...others] = await vectorOf(first, query, atMs);
      return only !== undefined && others.length === 0 ? only.value : Number.NaN;
    }
    case "absent":
      return (await vectorOf(first, query, atMs)).length === 0 ? [{ labels: labelsOfAbsent(first), value: 1 }] : [];
    case "absent_over_time":
      return rangesOf(first, query, atMs).some(({ samples }) => samples.values.length > 0)
        ? []
        : [{ labels: labelsOfAbsent(first), value: 1 }];
    case "timestamp":
      return await timestamps(first, query, atMs);
    case "sort":
    case "sort_desc":
      return sortedByValue(await vectorOf(first, query, atMs), name === "sort_desc");
    case "label_replace":
    case "label_join":
      return await relabelled(expression, query, atMs);
    default:
      throw new CoralError({ code: "unsupported", message: `Cannot evaluate ${name}(): it is not supported` });
  }
}

async function overRange({ name, args }: Call, query: Evaluation, atMs: number): Promise<VectorValue[]> {
  const known = functions[name];
  const range = args.find(({ type }, index) => known?.args[index] === "range" && (type === "selector" || type === "subquery"));
  if (known?.overRange === undefined || range === undefined) throw unexpected("no range");
  const scalars: number[] = [];
  for (const arg of args) if (arg !== range) scalars.push(await scalarOf(arg, query, atMs));
  checkSmoothing(name, scalars);
  const found: VectorValue[] = [];
  for (const { labels, samples } of rangesOf(range, query, atMs)) {
    const value = known.overRange(samples, scalars, atMs);
    if (value !== null) found.push({ labels: known.keepsName === true ? labels : withoutName(labels), value });
  }
  return found;
}

function checkSmoothing(name: string, factors: readonly number[]): void {
  if (name === "double_exponential_smoothing" && factors.some((factor) => !(factor > 0 && factor < 1)))
    throw new CoralError({ code: "invalid", message: `Cannot evaluate ${name}(): both factors must be between 0 and 1` });
}

function rangesOf(expression: Expression, query: Evaluation, atMs: number): { labels: Labels; samples: ReturnType<typeof rangeSamples> }[] {
  if (expression.type !== "selector" && expression.type !== "subquery") throw unexpected("no range");
  const endMs = readingTime(expression, query, atMs);
  const startMs = endMs - (expression.rangeMs ?? 0);
  return (query.series.get(expression) ?? []).map((series) => ({
    labels: series.labels,
    samples: rangeSamples(series, startMs, endMs),
  }));
}

async function ofValue(
  { name, args }: Call,
  read: NonNullable<(typeof functions)[string]["ofValue"]>,
  query: Evaluation,
  atMs: number,
): Promise<VectorValue[]> {
  const [first, ...rest] = args;
  const vector = first ? await vectorOf(first, query, atMs) : [{ labels: {}, value: atMs / 1_000 }];
  const scalars: number[] = [];
  for (const arg of rest) scalars.push(await scalarOf(arg, query, atMs));
  const [low = 0, high = 0] = scalars;
  if (name === "clamp" && low > high) return [];
  return vector.map(({ labels, value }) => ({ labels: withoutName(labels), value: read(value, ...scalars) }));
}

/** timestamp(): the times of a selector's samples; the evaluation time for any other expression. */
async function timestamps(expression: Expression, query: Evaluation, atMs: number): Promise<VectorValue[]> {
  if (expression.type === "selector")
    return select(expression, query, atMs).map(({ labels, timeMs }) => ({ labels: withoutName(labels), value: timeMs / 1_000 }));
  return (await vectorOf(expression, query, atMs)).map(({ labels }) => ({ labels: withoutName(labels), value: atMs / 1_000 }));
}

async function relabelled({ name, args }: Call, query: Evaluation, atMs: number): Promise<VectorValue[]> {
  const [first, ...rest] = args;
  const vector = first ? await vectorOf(first, query, atMs) : [];
  const [label = "", second = "", ...others] = rest.map((arg) => (arg.type === "text" ? arg.value : ""));
  if (!/^[A-Za-z_][A-Za-z0-9_.:/-]*$/.test(label))
    throw new CoralError({ code: "invalid", message: `Cannot evaluate ${name}(): "${label}" is not a label name` });
  if (name === "label_join")
    return vector.map(({ labels, value }) => ({
      labels: withLabel(labels, label, others.map((source) => labels[source] ?? "").join(second)),
      value,
    }));
  const [source = "", pattern = ""] = others;
  const texts = vector.map(({ labels }) => labels[source] ?? "");
  const replaced = await query.replacer.replace(texts, pattern, second);
  return vector.map(({ labels, value }, index) => {
    const text = replaced[index];
    return { labels: text === undefined || text === null ? labels : withLabel(labels, label, text), value };
  });
}

/** absent(): labels from the selector's equality matchers. A label with two matchers is left out, as in Prometheus. */
function labelsOfAbsent(expression: Expression): Labels {
  if (expression.type !== "selector") return {};
  const labels: Record<string, string> = {};
  const unclear = new Set(["__name__"]);
  for (const { label, operator, value } of expression.matchers) {
    if (operator !== "=" || label in labels) unclear.add(label);
    else labels[label] = value;
  }
  return Object.fromEntries(Object.entries(labels).filter(([label, value]) => !unclear.has(label) && value !== ""));
}

async function binary(expression: Binary, query: Evaluation, atMs: number): Promise<Value> {
  const { operator, isBool } = expression;
  const left = await evaluate(expression.left, query, atMs);
  const right = await evaluate(expression.right, query, atMs);
  if (typeof left !== "number" && typeof right !== "number") return combineVectors(expression, seriesIn(left), seriesIn(right));
  if (operator === "and" || operator === "or" || operator === "unless") throw unexpected("a number");
  if (typeof left === "number" && typeof right === "number") return Number(calculate(operator, left, right));
  const vector = seriesIn(typeof left === "number" ? right : left);
  const found: VectorValue[] = [];
  for (const each of vector) {
    const value = calculate(operator, typeof left === "number" ? left : each.value, typeof right === "number" ? right : each.value);
    if (typeof value === "number" || isBool) found.push({ labels: withoutName(each.labels), value: Number(value) });
    else if (value) found.push(each);
  }
  return found;
}

async function vectorOf(expression: Expression, query: Evaluation, atMs: number): Promise<VectorValue[]> {
  return seriesIn(await evaluate(expression, query, atMs));
}

async function scalarOf(expression: Expression, query: Evaluation, atMs: number): Promise<number> {
  const value = await evaluate(expression, query, atMs);
  if (typeof value === "number") return value;
  throw unexpected("series");
}

function seriesIn(value: Value): VectorValue[] {
  if (typeof value === "object") return value;
  throw unexpected("no series");
}

/** Unreachable after parsing: parsePromql() checks the types. */
function unexpected(what: string): CoralError {
  return new CoralError({ code: "internal", message: `Cannot evaluate the expression: unexpected ${what}` });
}
