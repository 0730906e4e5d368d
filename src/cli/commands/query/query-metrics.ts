import { escapeText } from "../../../base/escape-text.ts";
import { formatDurationMs } from "../../../base/units.ts";
import type { MetricNameFact, MetricRowFact } from "../../../model/metrics.ts";
import type { MetricResult } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { type Column, renderTable, type Table, tableOf } from "../../output/table.ts";
import { relative, shortList } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { metricRate, metricValue, plainNumber, pointsFor, trend } from "./metric-text.ts";

/** `coral query metrics [name]`: the list of metrics, or one metric by service or attribute. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  const { name, by } = toolInput(invocation, "coral_query_metrics");
  await showTool(
    invocation,
    "coral_query_metrics",
    {
      table: (answer) => tableFor(answer, by),
      page: (answer, wide) => metricPage(answer, print, { wide, name, by }),
    },
    { points: pointsFor(print.width) },
  );
}

function tableFor(answer: MetricResult, by: string | undefined): Table {
  return answer.rows.length > 0 ? tableOf(answer.rows, rowColumns(answer.rows, by)) : tableOf(answer.metrics, nameColumns(Date.now()));
}

interface PageOptions {
  wide: boolean;
  name: string | undefined;
  by: string | undefined;
}

/** A headline and the table of one metric; the plain list of metrics has no headline. */
function metricPage(answer: MetricResult, print: Printer, { wide, name, by }: PageOptions): string {
  const { rows, metrics, sinceMs, stepMs } = answer;
  if (rows.length === 0 && metrics.length === 0) return "";
  const table = renderTable(tableFor(answer, by), { wide, width: wide ? undefined : print.width, style: print.style });
  if (rows.length === 0) return table;
  const parts = [`last ${formatDurationMs(sinceMs)}`, by === undefined ? "by service" : `by ${escapeText(by)}`];
  if (stepMs > 0) parts.push(`step ${formatDurationMs(stepMs)}`);
  return `${print.style("bold", escapeText(name ?? ""))}  ${parts.join(" · ")}\n${table}`;
}

/** Columns of the list. The answer names only some services per metric, with the total count; the rest becomes `+n`. */
function nameColumns(nowMs: number): Column<MetricNameFact>[] {
  return [
    { title: "METRIC", key: "name", cell: (row) => row.name },
    { title: "KIND", key: "kind", cell: (row) => (row.isCounter ? "counter" : row.kind.replaceAll("_", " ")), raw: (row) => row.kind },
    { title: "UNIT", key: "unit", align: "left", cell: (row) => row.unit || null, raw: (row) => row.unit },
    {
      title: "SERVICES",
      key: "services",
      align: "left",
      cell: (row) =>
        shortList(
          [...row.services, ...new Array<string>(row.serviceCount - row.services.length).fill("")],
          Math.min(3, row.services.length),
          ", ",
        ),
      raw: (row) => row.services.join(" "),
    },
    { title: "SERIES", key: "series", cell: (row) => row.series },
    { title: "LAST", key: "lastAt", align: "right", cell: (row) => relative(row.lastAt, nowMs), raw: (row) => row.lastAt },
  ];
}

/** Columns that apply to the kinds in the answer. */
function rowColumns(rows: readonly MetricRowFact[], by: string | undefined): Column<MetricRowFact>[] {
  const has = (read: (row: MetricRowFact) => unknown): boolean => rows.some((row) => read(row) !== null);
  // Rows that differ only in unit or kind need these columns.
  const isBySeveral = new Set(rows.map(({ unit, kind }) => `${unit} ${kind}`)).size > 1;
  const value = (title: string, key: "last" | "mean" | "min" | "max" | "p50" | "p95" | "p99", wide = false): Column<MetricRowFact>[] =>
    has((row) => row[key])
      ? [{ title, key, align: "right", cell: (row) => metricValue(row[key], row.unit), raw: (row) => row[key], wide }]
      : [];
  // Show percentiles instead of extremes, which a single outlier decides.
  const isHistogram = has((row) => row.p95);
  return [
    ...(by === undefined || by === "service" || has((row) => row.service || null)
      ? [{ title: "SERVICE", key: "service", cell: (row: MetricRowFact) => row.service || null, raw: (row: MetricRowFact) => row.service }]
      : []),
    ...(by === undefined || by === "service"
      ? []
      : [{ title: by.toUpperCase(), key: "group", align: "left" as const, cell: (row: MetricRowFact) => row.group }]),
    ...(has((row) => row.rate)
      ? [
          {
            title: "RATE",
            key: "rate",
            align: "right" as const,
            cell: (row: MetricRowFact) => metricRate(row.rate, row.isCounter ? row.unit : "1"),
            raw: (row: MetricRowFact) => row.rate,
          },
          {
            title: isHistogram ? "COUNT" : "TOTAL",
            key: "total",
            align: "right" as const,
            cell: (row: MetricRowFact) =>
              row.total === null ? null : row.isCounter ? metricValue(row.total, row.unit) : plainNumber(row.total),
            raw: (row: MetricRowFact) => row.total,
          },
        ]
      : []),
    ...value("LAST", "last"),
    ...value("MEAN", "mean"),
    ...value("P50", "p50"),
    ...value("P95", "p95"),
    ...value("P99", "p99"),
    ...value("MIN", "min", isHistogram),
    ...value("MAX", "max", isHistogram),
    {
      title: isHistogram ? "P95 OVER TIME" : "OVER TIME",
      key: "points",
      align: "left",
      cell: (row) => trend(row.points),
      raw: (row) => row.points.map((point) => point ?? "").join(" "),
    },
    { title: "SERIES", key: "series", cell: (row) => row.series, wide: true },
    { title: "KIND", key: "kind", cell: (row) => row.kind, wide: !isBySeveral },
    { title: "UNIT", key: "unit", align: "left", cell: (row) => row.unit || null, raw: (row) => row.unit, wide: !isBySeveral },
  ];
}
