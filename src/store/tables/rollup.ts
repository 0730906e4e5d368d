/**
 * Roll-ups: coarser copies of a signal. Each run appends partials of the raw rows that arrived since the last one. Partials of one bucket
 * merge without loss, so late rows and clock steps need no special case. The views merge partials when they are read.
 */

import { storedColumns } from "../columns/column-batch.ts";
import { gatheredSql, mergedCountsSql, mergedLoSql } from "../engine/histogram-sql.ts";
import { columnTypeOf, type RollupMeasure, type Signal } from "../signals/define-signal.ts";
import { sqlTypeOf, type TableColumn } from "./signal-tables.ts";
import { thinPointsSql } from "./thin-points.ts";

export interface Resolution {
  suffix: "1m" | "10m";
  bucketMinutes: number;
  /** Older rows are removed. */
  maxAgeMs: number;
  /** How long new rows may wait to be rolled up. A longer interval gives fewer partials per bucket. */
  intervalMs: number;
}

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

export const resolutions: readonly Resolution[] = [
  { suffix: "1m", bucketMinutes: 1, maxAgeMs: 14 * dayMs, intervalMs: 0 },
  { suffix: "10m", bucketMinutes: 10, maxAgeMs: 60 * dayMs, intervalMs: 10 * minuteMs },
];

export function rollupName(signal: Signal, resolution: Resolution): string {
  return `${signal.name}_${resolution.suffix}`;
}

interface Measure {
  column: string;
  measure: RollupMeasure;
  sqlType: string;
}

function measuresOf(signal: Signal): Measure[] {
  return Object.entries(signal.rollup?.measures ?? {}).flatMap(([column, measures]) => {
    const spec = signal.columns[column];
    if (spec === undefined) throw new Error(`Cannot roll up "${signal.name}": it has no column "${column}"`);
    const { type } = columnTypeOf(spec);
    if (type !== "int" && type !== "float" && measures?.some((measure) => measure === "sum" || measure === "avg")) {
      throw new Error(`Cannot roll up "${signal.name}": column "${column}" is ${type} and cannot be summed`);
    }
    return (measures ?? []).map((measure) => ({ column, measure, sqlType: sqlTypeOf(type) }));
  });
}

function histogramsOf(signal: Signal): string[] {
  const names = signal.rollup?.histograms ?? [];
  for (const name of names) {
    const types = [`${name}_lo`, `${name}_counts`].map((column) => signal.columns[column]);
    if (types[0] !== "int" || types[1] !== "uints") {
      throw new Error(`Cannot roll up "${signal.name}": a histogram "${name}" consists of "${name}_lo" (int) and "${name}_counts" (uints)`);
    }
  }
  return names;
}

/** Sums of integers are stored as 128 bits, so that no agent can make them overflow. */
function sumType(sqlType: string): string {
  return sqlType === "DOUBLE" ? "DOUBLE" : "HUGEINT";
}

interface Partial {
  name: string;
  sqlType: string;
  /** SQL over raw rows. */
  make: string;
}

function partialsOf(signal: Signal): Partial[] {
  const partials = measuresOf(signal).flatMap(({ column, measure, sqlType }): Partial[] => {
    const sum = { name: `${column}_sum`, sqlType: sumType(sqlType), make: `sum("${column}")::${sumType(sqlType)}` };
    switch (measure) {
      case "sum":
        return [sum];
      case "avg":
        return [sum, { name: `${column}_count`, sqlType: "BIGINT", make: `count("${column}")` }];
      case "min":
      case "max":
        return [{ name: `${column}_${measure}`, sqlType, make: `${measure}("${column}")` }];
      case "last":
        return [{ name: `${column}_last`, sqlType, make: `arg_max("${column}", seq)` }];
    }
  });
  // A column with both `sum` and `avg` stores its sum once.
  return [...new Map(partials.map((partial) => [partial.name, partial])).values()];
}

const histogramColumns = (name: string): TableColumn[] => [
  { name: `${name}_lo`, sqlType: "BIGINT" },
  { name: `${name}_counts`, sqlType: "UBIGINT[]" },
];

/** Histograms gathered in `grouped` are merged one query level above it; `columns` are its other columns. */
function withHistograms(signal: Signal, columns: readonly string[], grouped: string): string {
  const names = histogramsOf(signal);
  if (names.length === 0) return grouped;
  const merged = names.flatMap((name) => [
    `${mergedLoSql(`"h_${name}"`)} AS "${name}_lo"`,
    `${mergedCountsSql(`"h_${name}"`)} AS "${name}_counts"`,
  ]);
  return `SELECT ${[...columns.map((column) => `"${column}"`), ...merged].join(", ")} FROM (${grouped})`;
}

const gathered = (signal: Signal, row = ""): string[] =>
  histogramsOf(signal).map((name) => `${gatheredSql(`${row}"${name}_lo"`, `${row}"${name}_counts"`)} AS "h_${name}"`);

const keysOf = (signal: Signal): TableColumn[] =>
  (signal.rollup?.keys ?? []).map((name) => ({ name, sqlType: sqlTypeOf(columnTypeOf(signal.columns[name] ?? "text").type) }));

/** Columns of a roll-up's table. `bucket` is the start of the interval; `last_seq` orders the partials of one source. */
export function rollupColumns(signal: Signal): TableColumn[] {
  if (signal.isThinned) {
    return [
      { name: "source", sqlType: "UINTEGER" },
      { name: "ingest", sqlType: "UBIGINT" },
      { name: "stored_at", sqlType: "TIMESTAMP" },
      { name: "seq", sqlType: "UBIGINT" },
      ...storedColumns(signal).map(({ name, type }) => ({ name, sqlType: sqlTypeOf(type) })),
    ];
  }
  return [
    { name: "source", sqlType: "UINTEGER" },
    { name: "ingest", sqlType: "UBIGINT" },
    { name: "stored_at", sqlType: "TIMESTAMP" },
    { name: "bucket", sqlType: "TIMESTAMP" },
    ...keysOf(signal),
    { name: "sample_count", sqlType: "BIGINT" },
    { name: "last_seq", sqlType: "UBIGINT" },
    ...partialsOf(signal).map(({ name, sqlType }) => ({ name, sqlType })),
    ...histogramsOf(signal).flatMap(histogramColumns),
  ];
}

/** Parameters: $ingest and $stored_at of the partials, and the range $after to $ingest of raw rows to consume. */
export function rollupSql(database: string, signal: Signal, resolution: Resolution): string {
  if (signal.isThinned) return thinPointsSql(database, signal, rollupName(signal, resolution), resolution.bucketMinutes);
  const columns = rollupColumns(signal).map(({ name }) => `"${name}"`);
  const keys = keysOf(signal).map(({ name }) => `"${name}"`);
  const values = [
    "source",
    "$ingest AS ingest",
    "make_timestamp($stored_at) AS stored_at",
    `time_bucket(INTERVAL ${resolution.bucketMinutes} MINUTE, "time") AS bucket`,
    ...keys,
    "count(*) AS sample_count",
    "max(seq) AS last_seq",
    ...partialsOf(signal).map(({ name, make }) => `${make} AS "${name}"`),
  ];
  const grouped = `SELECT ${[...values, ...gathered(signal)].join(", ")}
    FROM "${database}".raw."${signal.name}" WHERE ingest > $after AND ingest <= $ingest
    GROUP BY ${["source", "bucket", ...keys].join(", ")}`;
  const plain = ["source", "ingest", "stored_at", "bucket", ...keysOf(signal).map(({ name }) => name), "sample_count", "last_seq"];
  return `INSERT INTO "${database}".rollup."${rollupName(signal, resolution)}" (${columns.join(", ")})
    ${withHistograms(signal, [...plain, ...partialsOf(signal).map(({ name }) => name)], grouped)}`;
}

export interface ViewColumn {
  name: string;
  type: string;
}

/** The merged view: one row per agent, bucket and key. */
export function rollupView(database: string, signal: Signal, resolution: Resolution): { sql: string; columns: ViewColumn[] } {
  const keys = keysOf(signal);
  const merged = measuresOf(signal).map(({ column, measure, sqlType }) => {
    const name = `${column}_${measure}`;
    switch (measure) {
      case "sum":
        return { name, type: sumType(sqlType), sql: `sum(r."${name}")` };
      case "avg":
        return { name, type: "DOUBLE", sql: `sum(r."${column}_sum")::DOUBLE / nullif(sum(r."${column}_count"), 0)` };
      case "min":
      case "max":
        return { name, type: sqlType, sql: `${measure}(r."${name}")` };
      case "last":
        // Sources of one agent are numbered in the order in which its epochs appeared.
        return { name, type: sqlType, sql: `arg_max(r."${name}", r.source::HUGEINT * 18446744073709551616 + r.last_seq)` };
    }
  });
  const names = ["agent_id", "time", ...keys.map(({ name }) => name), "sample_count", ...merged.map(({ name }) => name)];
  const select = [
    "s.agent_id",
    'r.bucket AS "time"',
    ...keys.map(({ name }) => `r."${name}"`),
    "sum(r.sample_count)::BIGINT AS sample_count",
    ...merged.map(({ name, sql }) => `${sql} AS "${name}"`),
    ...gathered(signal, "r."),
  ];
  const groups = ["s.agent_id", "r.bucket", ...keys.map(({ name }) => `r."${name}"`)];
  const grouped = `SELECT ${select.join(", ")} FROM "${database}".rollup."${rollupName(signal, resolution)}" r
      JOIN "${database}".internal.sources s USING (source) GROUP BY ${groups.join(", ")}`;
  return {
    sql: withHistograms(signal, names, grouped),
    columns: [
      { name: "agent_id", type: "VARCHAR" },
      { name: "time", type: "TIMESTAMP" },
      ...keys.map(({ name, sqlType }) => ({ name, type: sqlType })),
      { name: "sample_count", type: "BIGINT" },
      ...merged.map(({ name, type }) => ({ name, type })),
      ...histogramsOf(signal)
        .flatMap(histogramColumns)
        .map(({ name, sqlType }) => ({ name, type: sqlType })),
    ],
  };
}
