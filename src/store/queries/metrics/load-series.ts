/** Loads metric points from the store, grouped by series, in time order. */

import { CoralError } from "../../../base/errors.ts";
import { parseExactJson } from "../../../base/exact-json.ts";
import type { MetricKind } from "../../../model/metrics.ts";
import type { ServiceFilter } from "../../../model/services.ts";
import {
  booleanIn,
  numberIn,
  numberOrNullIn,
  placeholders,
  type Queryable,
  type QueryParameter,
  type QueryRow,
  textIn,
  textOrNullIn,
} from "../../tables/queryable.ts";
import { serviceTexts } from "../service-filter.ts";
import { type PointSource, sentPoints } from "./choose-points.ts";
import type { Buckets, Distribution } from "./distribution.ts";
import { Turn } from "./turn.ts";

/** Times are microseconds since 1970. A point with neither value nor distribution is a stale marker. */
export interface SeriesPoint {
  timeUs: number;
  startUs: number | null;
  /** Of gauges and sums. May be NaN or infinite. */
  value: number | null;
  distribution: Distribution | null;
  /** Of rolled-up gauge points: how many points were merged, their sum, minimum and maximum. */
  merged?: { count: number; sum: number; min: number; max: number };
  /** Of summaries: (quantile, value) pairs. */
  quantiles: readonly (readonly [number, number | null])[] | null;
}

export interface MetricSeriesPoints {
  agentId: string;
  service: string;
  instance: string | null;
  name: string;
  unit: string;
  kind: MetricKind;
  temporality: "delta" | "cumulative" | null;
  isMonotonic: boolean;
  attributes: Readonly<Record<string, unknown>>;
  points: SeriesPoint[];
}

export interface SeriesFilter {
  names: readonly string[];
  service?: ServiceFilter;
  agentIds?: readonly string[];
  /** Exclusive, microseconds since 1970; `endUs` is inclusive. */
  startUs: number;
  endUs: number;
  /** Limit on points read. A histogram point weighs ten. */
  maxPoints: number;
  /** The table to read. Default: points as they were sent. */
  points?: PointSource;
}

const numberKinds = "('gauge', 'sum')";
const numberColumns = ["value", "special", "count", "sum", "min", "max"] as const;
const distributionColumns = [
  ...(["special", "count", "sum", "min", "max", "bounds", "counts", "scale", "zero_count", "zero_threshold"] as const),
  ...(["positive_offset", "positive_counts", "negative_offset", "negative_counts", "quantiles"] as const),
];
const distributionWeight = 10;
/** DuckDB copies list values several times in memory, so each query reads at most this many. */
const maxValuesAtOnce = 50_000;

/** Throws `exhausted` if more than `maxPoints` match: a partial read would give wrong numbers. */
export async function loadSeries(store: Queryable, filter: SeriesFilter): Promise<MetricSeriesPoints[]> {
  const where = whereOf(filter);
  const from = (filter.points ?? sentPoints).sql;
  const [counted] = await store.query(
    `SELECT count(*) AS points, count(*) FILTER (kind IN ${numberKinds}) AS numbers FROM ${from} WHERE ${where.sql}`,
    where.parameters,
  );
  const points = numberIn(counted ?? {}, "points");
  const numbers = numberIn(counted ?? {}, "numbers");
  if (numbers + (points - numbers) * distributionWeight > filter.maxPoints)
    throw new CoralError({
      code: "exhausted",
      message: `Cannot read "${filter.names.join('", "')}": ${points} matching points exceed the limit; filter by service, or shorten the window`,
    });
  const found: MetricSeriesPoints[] = [];
  const read = async (kinds: string, columns: readonly string[], values: number): Promise<void> => {
    const parts = Math.ceil(values / maxValuesAtOnce);
    for (let part = 0; part < parts; part++) {
      const only = parts === 1 ? kinds : `${kinds} AND hash(series) % ${parts} = ${part}`;
      await readSeries(store, from, where, only, columns, found);
    }
  };
  await read(`kind IN ${numberKinds}`, numberColumns, numbers);
  await read(`kind NOT IN ${numberKinds}`, distributionColumns, (points - numbers) * distributionWeight);
  return found;
}

/**
 * One row per series with a list per column: a row per point costs many times more. The lists are sorted here because DuckDB reserves 16
 * KiB for each list it sorts, and 500 series exceeded a colony's memory limit.
 */
async function readSeries(
  store: Queryable,
  from: string,
  where: { sql: string; parameters: QueryParameter[] },
  kinds: string,
  columns: readonly string[],
  into: MetricSeriesPoints[],
): Promise<void> {
  const same = ["service", "service_instance", "name", "unit", "kind", "temporality", "is_monotonic", "attributes"];
  const lists = [...["time", "start_time"].map((name) => `epoch_us("${name}") AS "${name}"`), ...columns.map((name) => `"${name}"`)];
  const names = ["time", "start_time", "seq", ...columns];
  const rows = await store.query(
    `SELECT agent_id, series, ${same.map((name) => `any_value(${name}) AS ${name}`).join(", ")},
       ${names.map((name) => `list("${name}") AS "${name}"`).join(", ")}
     FROM (SELECT agent_id, series, seq, ${same.join(", ")}, ${lists.join(", ")} FROM ${from} WHERE ${where.sql} AND ${kinds})
     GROUP BY agent_id, series ORDER BY agent_id, series`,
    where.parameters,
  );
  const knownBounds = new Map<string, number[]>();
  const turn = new Turn();
  for (const row of rows) {
    const series = seriesOf(row);
    const cells = names.map((name) => [name, listIn(row, name)] as const);
    for (const index of orderOf(listIn(row, "time"), listIn(row, "seq"))) {
      const cell: QueryRow = {};
      for (const [name, values] of cells) cell[name] = values[index];
      const point = pointOf(cell, series.kind, knownBounds);
      // A sender that missed the acknowledgement sends a point again: skip the duplicate.
      const last = series.points.at(-1);
      if (last?.timeUs === point.timeUs && last.startUs === point.startUs) series.points.pop();
      series.points.push(point);
    }
    into.push(series);
    await turn.yield();
  }
}

/** Indexes of points in time order; equal times keep their sequence order. */
function orderOf(times: readonly unknown[], sequences: readonly unknown[]): number[] {
  const time = times.map(Number);
  const sequence = sequences.map(Number);
  const at = (values: readonly number[], index: number): number => values[index] ?? 0;
  return [...time.keys()].sort((a, b) => at(time, a) - at(time, b) || at(sequence, a) - at(sequence, b));
}

function listIn(row: QueryRow, name: string): readonly unknown[] {
  const value = row[name];
  return Array.isArray(value) ? value : [];
}

function whereOf({ names, service, agentIds, startUs, endUs }: SeriesFilter): { sql: string; parameters: QueryParameter[] } {
  const parts = [`name IN (${placeholders(names)})`, `"time" > make_timestamp(?)`, `"time" <= make_timestamp(?)`];
  const parameters: QueryParameter[] = [...names, Math.floor(startUs), Math.floor(endUs)];
  if (service !== undefined) {
    const texts = serviceTexts(service);
    parts.push(`service IN (${placeholders(texts)})`);
    parameters.push(...texts);
  }
  if (agentIds !== undefined) {
    parts.push(agentIds.length === 0 ? "false" : `agent_id IN (${placeholders(agentIds)})`);
    parameters.push(...agentIds);
  }
  return { sql: parts.join(" AND "), parameters };
}

function seriesOf(row: QueryRow): MetricSeriesPoints {
  const temporality = textOrNullIn(row, "temporality");
  return {
    agentId: textIn(row, "agent_id"),
    service: textIn(row, "service"),
    instance: textOrNullIn(row, "service_instance"),
    name: textIn(row, "name"),
    unit: textIn(row, "unit"),
    kind: textIn(row, "kind") as MetricKind,
    temporality: temporality === "delta" || temporality === "cumulative" ? temporality : null,
    isMonotonic: booleanIn(row, "is_monotonic"),
    attributes: (jsonIn(row, "attributes", parseExactJson) as Record<string, unknown> | null) ?? {},
    points: [],
  };
}

function pointOf(row: QueryRow, kind: MetricKind, knownBounds: Map<string, number[]>): SeriesPoint {
  const special = textOrNullIn(row, "special");
  const point: SeriesPoint = {
    timeUs: numberIn(row, "time"),
    startUs: numberOrNullIn(row, "start_time"),
    value: null,
    distribution: null,
    quantiles: null,
  };
  if (special === "none") return point;
  if (kind === "gauge" || kind === "sum") {
    const count = numberOrNullIn(row, "count");
    const merged = { count: count ?? 1, sum: numberIn(row, "sum"), min: numberIn(row, "min"), max: numberIn(row, "max") };
    return { ...point, value: numberOrNullIn(row, "value") ?? specialValue(special), ...(count !== null && { merged }) };
  }
  if (kind === "summary") point.quantiles = (jsonIn(row, "quantiles") as [number, number | null][] | null) ?? [];
  return {
    ...point,
    distribution: {
      count: numberIn(row, "count"),
      sum: numberOrNullIn(row, "sum"),
      min: numberOrNullIn(row, "min"),
      max: numberOrNullIn(row, "max"),
      buckets: bucketsOf(row, kind, knownBounds),
    },
  };
}

function bucketsOf(row: QueryRow, kind: MetricKind, knownBounds: Map<string, number[]>): Buckets {
  if (kind === "exponential_histogram")
    return {
      type: "exponential",
      scale: numberIn(row, "scale"),
      zeroCount: numberIn(row, "zero_count"),
      zeroThreshold: numberIn(row, "zero_threshold"),
      positive: { offset: numberIn(row, "positive_offset"), counts: numbersIn(row, "positive_counts") },
      negative: { offset: numberIn(row, "negative_offset"), counts: numbersIn(row, "negative_counts") },
    };
  const text = textIn(row, "bounds");
  let bounds = knownBounds.get(text);
  if (bounds === undefined) {
    bounds = numbersIn(row, "bounds");
    knownBounds.set(text, bounds);
  }
  const counts = numbersIn(row, "counts");
  return { type: "explicit", bounds, counts: counts.length === 0 ? [numberIn(row, "count")] : counts };
}

function specialValue(special: string | null): number | null {
  if (special === "nan") return Number.NaN;
  if (special === "+inf") return Number.POSITIVE_INFINITY;
  return special === "-inf" ? Number.NEGATIVE_INFINITY : null;
}

function numbersIn(row: QueryRow, name: string): number[] {
  const value = jsonIn(row, name);
  return Array.isArray(value) ? value.map(Number) : [];
}

/** Null if absent or not valid JSON, as another version or program may have written it. */
function jsonIn(row: QueryRow, name: string, parse: (text: string) => unknown = JSON.parse): unknown {
  const text = textOrNullIn(row, name);
  if (text === null || text === "") return null;
  try {
    return parse(text);
  } catch {
    // Treated as absent: one malformed row must not hide the others.
    return null;
  }
}

/** An attribute as text, for display and grouping; null if the series lacks it. */
export function attributeText(series: MetricSeriesPoints, name: string): string | null {
  const value = series.attributes[name];
  if (value === undefined || value === null) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}
