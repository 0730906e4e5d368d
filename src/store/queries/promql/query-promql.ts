/** Evaluates PromQL over stored metrics, at equal steps. */

import { CoralError } from "../../../base/errors.ts";
import type { MetricKind, PromqlFacts, PromqlRequest, PromqlSeriesFact } from "../../../model/metrics.ts";
import { booleanIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { type PointSource, sentPoints } from "../metrics/choose-points.ts";
import { loadSeries, type MetricSeriesPoints } from "../metrics/load-series.ts";
import { Turn } from "../metrics/turn.ts";
import type { Expression, Matcher, Selector, Subquery } from "./ast.ts";
import { type Evaluation, evaluate, readingTime } from "./evaluate.ts";
import { LabelReplacer } from "./label-replacer.ts";
import { parsePromql } from "./parse.ts";
import { type MetricName, type NamedPart, prometheusNames } from "./prometheus-names.ts";
import { type Labels, lookBackMs, type PromSeries } from "./samples.ts";
import { promSeriesOf } from "./series-of-metric.ts";
import { keyOf } from "./vector.ts";

/** Milliseconds since 1970. `endMs` is inclusive. */
interface TimeWindow {
  startMs: number;
  endMs: number;
}

export interface PromqlQuery extends Omit<PromqlRequest, "sinceMs">, TimeWindow {
  /** Chooses the points that a selector reads. Default: points as they were sent. */
  points?: (window: TimeWindow) => Promise<PointSource>;
  signal?: AbortSignal;
}

/** Limit for all selectors of an expression together. */
const maxPointsRead = 500_000;
const maxSelectors = 20;
/** Limit for the result, and for each subquery. */
const maxSteps = 11_000;
/** Limit of series × steps for the result, and for each subquery. */
const maxValues = 1_000_000;

/** Throws `invalid` with the position if the expression is malformed or unsupported. */
export async function queryPromql(store: Queryable, query: PromqlQuery): Promise<Pick<PromqlFacts, "rows" | "total">> {
  const expression = parsePromql(query.expression);
  const steps = Math.floor((query.endMs - query.startMs) / query.stepMs) + 1;
  checkSteps(steps, "PromQL");
  const parts = partsOf(expression, query, query);
  const selectors = parts.filter((part) => part.node.type === "selector");
  if (selectors.length > maxSelectors)
    throw new CoralError({ code: "invalid", message: `Cannot evaluate PromQL with more than ${maxSelectors} selectors` });
  const series = new Map<Selector | Subquery, PromSeries[]>();
  const evaluation: Evaluation = { series, startMs: query.startMs, endMs: query.endMs, replacer: new LabelReplacer(store) };
  // A subquery comes after the parts it reads.
  for (const { node, window } of parts)
    series.set(
      node,
      node.type === "selector" ? await loadSelector(store, node, window, query) : await runSubquery(node, window, evaluation, query),
    );
  const found = new Map<string, PromqlSeriesFact & { step: number }>();
  const turn = new Turn();
  for (let step = 0; step < steps; step++) {
    if (await turn.yield()) query.signal?.throwIfAborted();
    const value = await evaluate(expression, evaluation, query.startMs + step * query.stepMs);
    for (const each of typeof value === "object" ? value : [{ labels: {}, value: Number(value) }]) putValue(found, each, step, steps);
  }
  const isRising = expression.type === "call" && expression.name === "sort";
  const rows = [...found.values()].sort((a, b) => (isRising ? newestOf(a) - newestOf(b) : newestOf(b) - newestOf(a)));
  return { rows: rows.slice(0, query.limit).map(({ labels, points }) => ({ labels, points })), total: rows.length };
}

function checkSteps(steps: number, what: string): void {
  if (steps >= 0 && steps <= maxSteps) return;
  throw new CoralError({
    code: "invalid",
    message: `Cannot evaluate ${what} in ${steps} steps: at most ${maxSteps} are allowed; use a longer step`,
  });
}

function putValue(
  found: Map<string, PromqlSeriesFact & { step: number }>,
  { labels, value }: { labels: Labels; value: number },
  step: number,
  steps: number,
): void {
  const key = keyOf(labels);
  let row = found.get(key);
  if (row === undefined) {
    if ((found.size + 1) * steps > maxValues) throw tooManyValues("PromQL");
    row = { labels, points: new Array<null>(steps).fill(null), step: -1 };
    found.set(key, row);
  }
  if (row.step === step) throw sameLabels(labels);
  row.step = step;
  row.points[step] = Number.isFinite(value) ? value : null;
}

function tooManyValues(what: string): CoralError {
  return new CoralError({
    code: "exhausted",
    message: `Cannot evaluate ${what}: too many series and steps; aggregate, or use a longer step`,
  });
}

function sameLabels(labels: Labels): CoralError {
  return new CoralError({
    code: "invalid",
    message: `Cannot evaluate PromQL: several series of the result have the same labels ${JSON.stringify(labels)}; aggregate them, or keep a label that differs`,
  });
}

function newestOf({ points }: PromqlSeriesFact): number {
  return points.findLast((point) => point !== null) ?? Number.NEGATIVE_INFINITY;
}

interface Part {
  node: Selector | Subquery;
  /**
   * For a selector, the time range of the data it reads. For a subquery, the range in which its expression is evaluated, exclusive of the
   * start.
   */
  window: TimeWindow;
}

/** Selectors and subqueries of an expression, inner ones first. `times` is the range in which the expression is evaluated. */
function partsOf(expression: Expression, times: TimeWindow, query: TimeWindow): Part[] {
  switch (expression.type) {
    case "number":
    case "text":
      return [];
    case "selector":
    case "subquery": {
      const rangeMs = expression.rangeMs ?? lookBackMs;
      const endMs = readingTime(expression, query, times.endMs);
      const window = { startMs: readingTime(expression, query, times.startMs) - rangeMs, endMs };
      const within = expression.type === "subquery" ? partsOf(expression.expression, window, query) : [];
      return [...within, { node: expression, window }];
    }
    case "negation":
      return partsOf(expression.expression, times, query);
    case "call":
      return expression.args.flatMap((arg) => partsOf(arg, times, query));
    case "binary":
      return [...partsOf(expression.left, times, query), ...partsOf(expression.right, times, query)];
    case "aggregation":
      return [expression.parameter, expression.expression].flatMap((part) => (part ? partsOf(part, times, query) : []));
  }
}

/** Evaluates at multiples of the step, regardless of the query time, so that repeated queries use the same samples. */
async function runSubquery(
  { expression, stepMs }: Subquery,
  { startMs, endMs }: TimeWindow,
  evaluation: Evaluation,
  { signal }: PromqlQuery,
): Promise<PromSeries[]> {
  const firstMs = (Math.floor(startMs / stepMs) + 1) * stepMs;
  const steps = Math.max(0, Math.floor((endMs - firstMs) / stepMs) + 1);
  checkSteps(steps, "a subquery");
  const found = new Map<string, PromSeries>();
  const turn = new Turn();
  for (let step = 0; step < steps; step++) {
    if (await turn.yield()) signal?.throwIfAborted();
    const atMs = firstMs + step * stepMs;
    const value = await evaluate(expression, evaluation, atMs);
    for (const { labels, value: number } of typeof value === "object" ? value : []) {
      const key = keyOf(labels);
      const series = found.get(key) ?? { labels, timesMs: [], values: [] };
      if (series.timesMs.at(-1) === atMs) throw sameLabels(labels);
      series.timesMs.push(atMs);
      series.values.push(number);
      found.set(key, series);
    }
    if (found.size * steps > maxValues) throw tooManyValues("a subquery");
  }
  return [...found.values()];
}

async function loadSelector(store: Queryable, selector: Selector, window: TimeWindow, query: PromqlQuery): Promise<PromSeries[]> {
  const startUs = window.startMs * 1_000;
  const endUs = window.endMs * 1_000;
  const points = await query.points?.(window);
  const wanted = await selectMetrics(store, selector.matchers, { startUs, endUs, from: (points ?? sentPoints).sql });
  if (wanted.size === 0) return [];
  const service = selector.matchers.find(
    ({ label, operator, value }) => (label === "service" || label === "job") && operator === "=" && value !== "",
  );
  const loaded = await loadSeries(store, {
    names: [...new Set([...wanted.values()].map(({ metric }) => metric.name))],
    ...(service ? { service: service.value } : {}),
    ...(query.agentIds === undefined ? {} : { agentIds: query.agentIds }),
    startUs,
    endUs,
    maxPoints: maxPointsRead,
    ...(points && { points }),
  });
  const made = loaded.flatMap((series) => {
    const named = wanted.get(metricKey(series));
    return named ? named.names.flatMap(({ text, part }) => promSeriesOf({ name: text, part, series }, startUs)) : [];
  });
  return await matching(
    store,
    made,
    selector.matchers.filter(({ label }) => label !== "__name__"),
  );
}

interface WantedMetric {
  metric: MetricName;
  names: { text: string; part: NamedPart }[];
}

function metricKey({ name, unit, kind, isMonotonic }: MetricName | MetricSeriesPoints): string {
  return JSON.stringify([name, unit, kind, isMonotonic]);
}

/** Metrics whose name matches. Each part of a metric is used once, under the first matching name. */
async function selectMetrics(
  store: Queryable,
  matchers: readonly Matcher[],
  { startUs, endUs, from }: { startUs: number; endUs: number; from: string },
): Promise<Map<string, WantedMetric>> {
  const rows = await store.query(
    `SELECT DISTINCT name, unit, kind, is_monotonic FROM ${from} WHERE "time" > make_timestamp(?) AND "time" <= make_timestamp(?)`,
    [Math.floor(startUs), Math.floor(endUs)],
  );
  const metrics = rows.map(
    (row): MetricName => ({
      name: textIn(row, "name"),
      unit: textIn(row, "unit"),
      kind: textIn(row, "kind") as MetricKind,
      isMonotonic: booleanIn(row, "is_monotonic"),
    }),
  );
  const about = matchers.filter(({ label }) => label === "__name__");
  const candidates = metrics.flatMap((metric) => prometheusNames(metric).map((name) => ({ metric, ...name })));
  const matches = await matchingTexts(store, about, new Set(candidates.map(({ text }) => text)));
  const wanted = new Map<string, WantedMetric>();
  for (const { metric, text, part } of candidates) {
    if (!matches.has(text)) continue;
    const key = metricKey(metric);
    const found = wanted.get(key) ?? { metric, names: [] };
    if (!found.names.some((name) => name.part === part)) found.names.push({ text, part });
    wanted.set(key, found);
  }
  return wanted;
}

async function matching(store: Queryable, all: readonly PromSeries[], matchers: readonly Matcher[]): Promise<PromSeries[]> {
  let left = [...all];
  for (const matcher of matchers) {
    const textOf = ({ labels }: PromSeries): string => labels[matcher.label] ?? "";
    const matches = await matchingTexts(store, [matcher], new Set(left.map(textOf)));
    left = left.filter((series) => matches.has(textOf(series)));
  }
  return left;
}

/** Evaluates matchers. Regular expressions run in DuckDB: RE2 takes linear time, JavaScript's engine does not. */
async function matchingTexts(store: Queryable, matchers: readonly Matcher[], texts: ReadonlySet<string>): Promise<Set<string>> {
  let left = [...texts];
  for (const { operator, value } of matchers) {
    if (operator === "=" || operator === "!=") left = left.filter((text) => (text === value) === (operator === "="));
    else if (left.length > 0) {
      const rows = await matchRegex(store, left, value);
      const hits = new Set(rows);
      left = left.filter((text) => hits.has(text) === (operator === "=~"));
    }
  }
  return new Set(left);
}

async function matchRegex(store: Queryable, texts: readonly string[], pattern: string): Promise<string[]> {
  try {
    const rows = await store.query(
      `SELECT text FROM (SELECT unnest(from_json(?, '["VARCHAR"]')) AS text) WHERE regexp_full_match(text, ?, 's')`,
      [JSON.stringify(texts), pattern],
    );
    return rows.map((row) => textIn(row, "text"));
  } catch (error) {
    const { message } = CoralError.from(error);
    throw new CoralError({ code: "invalid", message: `Cannot use the regular expression "${pattern}": ${message}`, cause: error });
  }
}
