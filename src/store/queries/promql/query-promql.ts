/** PromQL over the metrics of the store, at equal steps. */

import { CoralError } from "../../../base/errors.ts";
import type { MetricKind, PromqlFacts, PromqlRequest, PromqlSeriesFact } from "../../../model/metrics.ts";
import { booleanIn, type Queryable, textIn } from "../../tables/queryable.ts";
import type { PointSource } from "../metrics/choose-points.ts";
import { loadSeries, type MetricSeriesPoints } from "../metrics/load-series.ts";
import { Turn } from "../metrics/turn.ts";
import type { Expression, Matcher, Selector } from "./ast.ts";
import { evaluate } from "./evaluate.ts";
import { parsePromql } from "./parse.ts";
import { type MetricName, type NamedPart, prometheusNames } from "./prometheus-names.ts";
import type { Labels, PromSeries } from "./samples.ts";
import { promSeriesOf } from "./series-of-metric.ts";
import { keyOf } from "./vector.ts";

export interface PromqlQuery extends Omit<PromqlRequest, "sinceMs"> {
  /** Milliseconds since 1970; both are evaluated. */
  startMs: number;
  endMs: number;
  /** The points to read; default: points as they were sent. */
  points?: PointSource;
  signal?: AbortSignal;
}

const lookBackMs = 5 * 60_000;
/** Of all selectors of an expression. */
const maxPointsRead = 500_000;
const maxSelectors = 20;
const maxSteps = 11_000;
/** Series times steps in the answer. */
const maxValues = 1_000_000;

/** Throws `invalid` with the position when the expression is not valid or not supported. */
export async function queryPromql(store: Queryable, query: PromqlQuery): Promise<Pick<PromqlFacts, "rows" | "total">> {
  const expression = parsePromql(query.expression);
  const steps = Math.floor((query.endMs - query.startMs) / query.stepMs) + 1;
  if (!(steps >= 1 && steps <= maxSteps))
    throw new CoralError({
      code: "invalid",
      message: `Cannot evaluate PromQL in ${steps} steps: at most ${maxSteps} are allowed; use a longer step`,
    });
  const selectors = selectorsIn(expression);
  if (selectors.length > maxSelectors)
    throw new CoralError({ code: "invalid", message: `Cannot evaluate PromQL with more than ${maxSelectors} selectors` });
  const chosen = new Map<Selector, PromSeries[]>();
  for (const selector of selectors) chosen.set(selector, await chooseSeries(store, selector, query));
  const found = new Map<string, PromqlSeriesFact>();
  const turn = new Turn();
  for (let step = 0; step < steps; step++) {
    if (await turn.yield()) query.signal?.throwIfAborted();
    const value = evaluate(expression, chosen, query.startMs + step * query.stepMs);
    for (const each of typeof value === "number" ? [{ labels: {}, value }] : value) put(found, each, step, steps);
  }
  const rows = [...found.values()].sort((a, b) => newestOf(b) - newestOf(a));
  return { rows: rows.slice(0, query.limit), total: rows.length };
}

function put(
  found: Map<string, PromqlSeriesFact>,
  { labels, value }: { labels: Labels; value: number },
  step: number,
  steps: number,
): void {
  const key = keyOf(labels);
  let row = found.get(key);
  if (row === undefined) {
    if ((found.size + 1) * steps > maxValues)
      throw new CoralError({
        code: "exhausted",
        message: "Cannot answer: the expression has too many series and steps; aggregate, or use a longer step",
      });
    row = { labels, points: new Array<null>(steps).fill(null) };
    found.set(key, row);
  }
  row.points[step] = Number.isFinite(value) ? value : null;
}

function newestOf({ points }: PromqlSeriesFact): number {
  return points.findLast((point) => point !== null) ?? Number.NEGATIVE_INFINITY;
}

function selectorsIn(expression: Expression): Selector[] {
  switch (expression.type) {
    case "number":
      return [];
    case "selector":
      return [expression];
    case "negation":
      return selectorsIn(expression.expression);
    case "call":
      return expression.args.flatMap(selectorsIn);
    case "binary":
      return [...selectorsIn(expression.left), ...selectorsIn(expression.right)];
    case "aggregation":
      return [...(expression.parameter ? selectorsIn(expression.parameter) : []), ...selectorsIn(expression.expression)];
  }
}

async function chooseSeries(store: Queryable, selector: Selector, query: PromqlQuery): Promise<PromSeries[]> {
  const { rangeMs = lookBackMs, offsetMs } = selector;
  const startUs = (query.startMs - offsetMs - rangeMs) * 1_000;
  const endUs = (query.endMs - offsetMs) * 1_000;
  const wanted = await chooseNames(store, selector.matchers, startUs, endUs);
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
    ...(query.points && { points: query.points }),
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

/** Metrics with a matching name; each part of one is used once, under the first of its names. */
async function chooseNames(
  store: Queryable,
  matchers: readonly Matcher[],
  startUs: number,
  endUs: number,
): Promise<Map<string, WantedMetric>> {
  const rows = await store.query(
    `SELECT DISTINCT name, unit, kind, is_monotonic FROM metric_point WHERE "time" > make_timestamp(?) AND "time" <= make_timestamp(?)`,
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
  const fitting = await fittingTexts(store, about, new Set(candidates.map(({ text }) => text)));
  const wanted = new Map<string, WantedMetric>();
  for (const { metric, text, part } of candidates) {
    if (!fitting.has(text)) continue;
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
    const fitting = await fittingTexts(store, [matcher], new Set(left.map(textOf)));
    left = left.filter((series) => fitting.has(textOf(series)));
  }
  return left;
}

/** Regular expressions are left to the database, whose engine takes linear time for any of them. */
async function fittingTexts(store: Queryable, matchers: readonly Matcher[], texts: ReadonlySet<string>): Promise<Set<string>> {
  let left = [...texts];
  for (const { operator, value } of matchers) {
    if (operator === "=" || operator === "!=") left = left.filter((text) => (text === value) === (operator === "="));
    else if (left.length > 0) {
      const rows = await matchTexts(store, left, value);
      const hits = new Set(rows);
      left = left.filter((text) => hits.has(text) === (operator === "=~"));
    }
  }
  return new Set(left);
}

async function matchTexts(store: Queryable, texts: readonly string[], pattern: string): Promise<string[]> {
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
