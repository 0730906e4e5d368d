import { escapeText } from "../../../base/escape-text.ts";
import { formatDurationMs } from "../../../base/units.ts";
import type { RedGrouping } from "../../../model/red.ts";
import { routeText } from "../../../model/route-text.ts";
import type { RedResult, RedRow } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { type Column, renderTable, tableOf, valueColumn } from "../../output/table.ts";
import { bytes, grouped, percent, rate } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { errorCell, findingStyles, latencyColumn, protocolText, rateColumn, rateLine } from "./red-text.ts";

/** `coral query red [service]`: one line per service, route, peer or status. */
export async function run(invocation: Invocation): Promise<void> {
  const { print, args } = invocation;
  await showTool(
    invocation,
    "coral_query_red",
    {
      table: (answer) => tableOf(answer.rows, [serviceColumn, ...columnsFor(answer, undefined)]),
      page: (answer, wide) => redPage(answer, print, { wide, service: args[0] }),
    },
    { points: pointsFor(print.width) },
  );
}

/** Points of the trend that fit the terminal; 0 hides it, and the colony then does not compute it. */
function pointsFor(width: number | undefined): number {
  if (width === undefined || width >= 120) return 20;
  return width >= 100 ? 10 : 0;
}

function redPage(answer: RedResult, print: Printer, { wide, service }: { wide: boolean; service: string | undefined }): string {
  const { style } = print;
  if (answer.rows.length === 0) return "";
  const width = wide ? undefined : print.width;
  // Drop a column that would repeat one name, to leave space for routes.
  const isRepeated = answer.by !== "service" && new Set(answer.rows.map((row) => row.service)).size === 1;
  const table = tableOf(answer.rows, [...(isRepeated ? [] : [serviceColumn]), ...columnsFor(answer, width)]);
  const lines = [headline(answer, print, service)];
  for (const finding of answer.findings) {
    lines.push(`  ${style(findingStyles[finding.severity], `${finding.severity}:`)} ${escapeText(finding.message)}`);
  }
  return `${lines.join("\n")}\n${renderTable(table, { wide, width, style })}`;
}

/** `api  last 5m by route · served 12,345 (41/s, 0.2% failed) · sent 300 (1/s, 0% failed)`. */
function headline(answer: RedResult, { style }: Printer, service: string | undefined): string {
  const { rows, sinceMs, windowMs, by } = answer;
  const names = new Set(rows.map((row) => row.service));
  const name = service === undefined || names.size !== 1 ? "Requests" : ([...names][0] ?? service);
  // Hooks may have started within the requested time; rates cover only the time since.
  const watched = windowMs < sinceMs * 0.9 ? `, observed for ${formatDurationMs(windowMs)}` : "";
  const parts = [`last ${formatDurationMs(sinceMs)} by ${by}${watched}`];
  // Sums over a truncated list would look like totals.
  if (answer.total === rows.length) parts.push(...(["server", "client"] as const).flatMap((role) => roleText(rows, role)));
  return `${style("bold", escapeText(name))}  ${parts.join(" · ")}`;
}

/** Served and sent requests are not added: an internal call counts in both. */
function roleText(all: readonly RedRow[], role: RedRow["role"]): string[] {
  const rows = all.filter((row) => row.role === role);
  if (rows.length === 0) return [];
  const requests = rows.reduce((sum, row) => sum + row.requests, 0);
  const errors = rows.reduce((sum, row) => sum + row.errors, 0);
  const perSecond = rows.reduce((sum, row) => sum + row.perSecond, 0);
  const failed = percent(requests === 0 ? 0 : errors / requests);
  return [`${role === "server" ? "served" : "sent"} ${grouped(requests)} (${rate(perSecond)}/s, ${failed} failed)`];
}

const serviceColumn: Column<RedRow> = { title: "SERVICE", key: "service", cell: (row) => row.service };

/**
 * Columns that fit this width; undefined: all. `from` is the least width, in cells, at which a column is shown. Names, rate, errors and
 * p95 always stay; -o wide shows everything.
 */
function columnsFor({ by }: RedResult, width: number | undefined): readonly Column<RedRow>[] {
  const room = width ?? Number.POSITIVE_INFINITY;
  const columns: (Column<RedRow> & { from?: number })[] = [
    ...subjectColumns(by),
    { title: "ROLE", key: "role", cell: (row) => row.role, from: 70 },
    { title: "PROTOCOL", key: "protocol", cell: protocolText, raw: (row) => row.protocol, from: 60 },
    rateColumn((row) => row.perSecond),
    valueColumn("ERRORS", "errorRatio", (row) => row.errorRatio, errorCell, { align: "right" }),
    { ...latencyColumn<RedRow>("P50", "p50Us", (row) => row.p50Us), from: 50 },
    latencyColumn("P95", "p95Us", (row) => row.p95Us, slowStyle),
    { ...latencyColumn<RedRow>("P99", "p99Us", (row) => row.p99Us), from: 75 },
    { ...latencyColumn<RedRow>("QUEUE", "queueMeanUs", (row) => row.queueMeanUs, queueStyle), from: 90 },
    { ...latencyColumn<RedRow>("SERVICE TIME", "serviceMeanUs", (row) => row.serviceMeanUs), from: 104 },
    {
      title: "RATE",
      key: "points",
      cell: (row) => rateLine(row.points),
      raw: (row) => row.points.join(" "),
      align: "left",
      from: 100,
    },
    { title: "REQUESTS", key: "requests", cell: (row) => row.requests, wide: true },
    { title: "FAILED", key: "errors", cell: (row) => row.errors, wide: true },
    { ...latencyColumn<RedRow>("MEAN", "meanUs", (row) => row.meanUs), wide: true },
    { ...latencyColumn<RedRow>("QUEUE P95", "queueP95Us", (row) => row.queueP95Us), wide: true },
    { ...latencyColumn<RedRow>("FIRST BYTE", "firstByteP50Us", (row) => row.firstByteP50Us), wide: true },
    { ...latencyColumn<RedRow>("FIRST BYTE P95", "firstByteP95Us", (row) => row.firstByteP95Us), wide: true },
    valueColumn("BYTES IN", "requestBytes", (row) => row.requestBytes, bytes, { align: "right", wide: true }),
    valueColumn("BYTES OUT", "responseBytes", (row) => row.responseBytes, bytes, { align: "right", wide: true }),
    { title: "SOURCE", key: "source", cell: (row) => row.source, wide: true },
    { title: "TLS", key: "isTls", cell: (row) => (row.isTls ? "yes" : "no"), raw: (row) => row.isTls, wide: true },
  ];
  return columns.filter(({ from = 0 }) => room >= from);
}

/** Group of a row; absent by service, where the service column already has it. */
function subjectColumns(by: RedGrouping): Column<RedRow>[] {
  switch (by) {
    case "service":
      return [];
    case "route":
      return [{ title: "ROUTE", key: "route", cell: (row) => routeText(row.method ?? "", row.route ?? "") }];
    case "peer":
      return [{ title: "PEER", key: "peer", align: "left", cell: (row) => row.peer }];
    case "status":
      return [{ title: "STATUS", key: "status", align: "left", cell: (row) => row.status }];
  }
}

/** p95 at least doubled since the preceding window. */
function slowStyle({ p95Us, before }: RedRow): "yellow" | undefined {
  return p95Us !== null && before?.p95Us && p95Us > 2 * before.p95Us ? "yellow" : undefined;
}

/** Yellow when queue time exceeds service time (too few workers). Ignores queue times below a millisecond. */
function queueStyle({ queueMeanUs, meanUs }: RedRow): "yellow" | undefined {
  return queueMeanUs !== null && meanUs !== null && queueMeanUs > meanUs / 2 && queueMeanUs > 1_000 ? "yellow" : undefined;
}
