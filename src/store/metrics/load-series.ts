/** Points of metrics from the store, by series and in the order of time. */

import { CoralError } from "../../base/errors.ts";
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
} from "../queries/queryable.ts";
import type { Buckets, Distribution } from "./distribution.ts";

export type MetricKind = "gauge" | "sum" | "histogram" | "exponential_histogram" | "summary";

/** Times in microseconds since 1970. A point without either says that the series ended. */
export interface SeriesPoint {
  timeUs: number;
  startUs: number | null;
  /** Of gauges and sums; may be NaN or infinite. */
  value: number | null;
  distribution: Distribution | null;
  /** Of summaries. */
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
  service?: string;
  agentIds?: readonly string[];
  /** Microseconds since 1970; the end belongs to it. */
  startUs: number;
  endUs: number;
  maxPoints: number;
}

/** Throws `exhausted` when there are more points than wanted: a part of them would give wrong numbers. */
export async function loadSeries(store: Queryable, filter: SeriesFilter): Promise<MetricSeriesPoints[]> {
  const { sql, parameters } = whereOf(filter);
  const rows = await store.query(
    `SELECT agent_id, series, service, service_instance, name, unit, kind, temporality, is_monotonic, attributes, "time", start_time, value, special, count,
       sum, min, max, bounds, counts, scale, zero_count, zero_threshold, positive_offset, positive_counts, negative_offset, negative_counts, quantiles
     FROM metric_point WHERE ${sql} ORDER BY agent_id, series, "time", seq LIMIT ${filter.maxPoints + 1}`,
    parameters,
  );
  if (rows.length > filter.maxPoints)
    throw new CoralError({
      code: "exhausted",
      message: `Cannot read "${filter.names.join('", "')}": more than ${filter.maxPoints} points fit; name a service, or look less far back`,
    });
  return seriesIn(rows);
}

function whereOf({ names, service, agentIds, startUs, endUs }: SeriesFilter): { sql: string; parameters: QueryParameter[] } {
  const parts = [`name IN (${placeholders(names)})`, `"time" > make_timestamp(?)`, `"time" <= make_timestamp(?)`];
  const parameters: QueryParameter[] = [...names, Math.floor(startUs), Math.floor(endUs)];
  if (service !== undefined) {
    parts.push("service = ?");
    parameters.push(service);
  }
  if (agentIds !== undefined) {
    parts.push(agentIds.length === 0 ? "false" : `agent_id IN (${placeholders(agentIds)})`);
    parameters.push(...agentIds);
  }
  return { sql: parts.join(" AND "), parameters };
}

function seriesIn(rows: readonly QueryRow[]): MetricSeriesPoints[] {
  const found: MetricSeriesPoints[] = [];
  const bounds = new Map<string, number[]>();
  let key = "";
  let current: MetricSeriesPoints | undefined;
  for (const row of rows) {
    const rowKey = `${textIn(row, "agent_id")} ${textIn(row, "series")}`;
    if (current === undefined || rowKey !== key) {
      key = rowKey;
      current = seriesOf(row);
      found.push(current);
    }
    const point = pointOf(row, current.kind, bounds);
    const last = current.points.at(-1);
    // The same point may come twice, when a sender did not hear that it was stored.
    if (last?.timeUs === point.timeUs) current.points.pop();
    current.points.push(point);
  }
  return found;
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
    attributes: (jsonIn(row, "attributes") as Record<string, unknown> | null) ?? {},
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
  if (kind === "gauge" || kind === "sum") return { ...point, value: numberOrNullIn(row, "value") ?? specialValue(special) };
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

/** Null for what is absent, and for what is no JSON: it was written by another version, or by somebody else. */
function jsonIn(row: QueryRow, name: string): unknown {
  const text = textOrNullIn(row, name);
  if (text === null || text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    // Told as absent: one bad row must not hide the others.
    return null;
  }
}

/** An attribute as people read it and group by it; null when the series has none of that name. */
export function attributeText(series: MetricSeriesPoints, name: string): string | null {
  const value = series.attributes[name];
  if (value === undefined || value === null) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}
