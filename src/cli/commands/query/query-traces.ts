import { CoralError } from "../../../base/errors.ts";
import type { TraceSummary } from "../../../model/traces.ts";
import type { TraceSpan, TracesResult } from "../../../tools/index.ts";
import { type Column, renderTable, type Table, tableOf, valueColumn } from "../../output/table.ts";
import { localTime, number } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { tracePage } from "./trace/trace-page.ts";
import { spanLabel, spanTime } from "./trace/trace-text.ts";

/** Least spans requested of a trace: self times need spans that are not drawn. */
const spansAsked = 5_000;
/** Default number of lines of a waterfall. */
const linesDrawn = 200;

/** `coral query traces [service]`: one line per trace; with --trace-id one trace as a waterfall. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const colony = await connectColony(invocation);
  const since = options.durationText("since") ?? "1h";
  const [first] = args;
  // A pasted trace id selects the trace; no service has such a name.
  const isTraceId = first !== undefined && /^[0-9a-f]{32}$/i.test(first);
  const traceId = options.text("trace-id") ?? (isTraceId ? first : undefined);
  const limit = options.integer("limit", 1, 20_000);
  if (options.flag("details") && traceId === undefined)
    throw new CoralError({ code: "usage", message: "Cannot use --details with a list: select one trace with --trace-id" });
  const given =
    traceId === undefined
      ? {
          since,
          service: first,
          route: options.text("route"),
          minDuration: options.durationText("min-duration"),
          where: options.texts("where").length > 0 ? options.texts("where") : undefined,
          error: options.flag("error") ? true : undefined,
          agent: options.text("agent"),
          order: options.text("sort"),
          limit,
        }
      : { traceId, limit: Math.max(limit ?? 0, spansAsked), details: options.flag("details") ? true : undefined };
  const input = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const nowMs = Date.now();
  await showAnswer(invocation, () => colony.call("coral_query_traces", input), {
    table: (answer) => (answer.trace ? tableOf(answer.trace.spans, spanColumns) : tracesTable(answer, undefined, nowMs)),
    page: (answer, wide) => {
      if (answer.trace) return tracePage(answer.trace, print, { wide, maxLines: limit ?? linesDrawn, nowMs });
      const width = wide ? undefined : print.width;
      return renderTable(tracesTable(answer, width, nowMs), { wide, width, style: print.style });
    },
    empty: `No matching traces in the last ${since}; look further back with --since`,
  });
}

/** `from` is the least terminal width, in cells, at which a column is shown. Ids always stay. */
function tracesTable(answer: TracesResult, width: number | undefined, nowMs: number): Table {
  const room = width ?? Number.POSITIVE_INFINITY;
  const columns: (Column<TraceSummary> & { from?: number })[] = [
    // Ids are never truncated, because people copy them; columns to their right may be.
    { title: "TRACE ID", key: "traceId", align: "right", cell: (row) => row.traceId },
    {
      title: "STARTED",
      key: "startedAt",
      cell: (row) => localTime(row.startedAt, nowMs),
      raw: (row) => row.startedAt,
      align: "right",
      from: 100,
    },
    {
      title: room < 52 ? "TOOK" : "DURATION",
      key: "durationNs",
      align: "right",
      cell: (row) => spanTime(row.durationNs),
      raw: (row) => row.durationNs,
    },
    { title: "SPANS", key: "spans", cell: (row) => row.spans, from: 80 },
    { title: "ERRORS", key: "errors", align: "right", cell: (row) => (row.errors > 0 ? { text: row.errors, style: "red" } : 0), from: 72 },
    { title: "SERVICE", key: "service", align: "left", cell: (row) => row.service, from: 64 },
    { title: "NAME", key: "name", align: "left", cell: (row) => (row.hasRoot ? row.name : { text: row.name, style: "dim" }), from: 50 },
    { title: "SERVICES", key: "services", align: "left", cell: (row) => row.services.join(","), wide: true },
    { title: "FITS", key: "matchName", align: "left", cell: (row) => `${row.matchService} ${row.matchName}`, wide: true },
    valueColumn("ITS DURATION", "matchDurationNs", (row) => row.matchDurationNs, spanTime, { align: "right", wide: true }),
    valueColumn("WEIGHT", "weight", (row) => row.weight, number, { align: "right", wide: true }),
  ];
  return tableOf(
    answer.traces,
    columns.filter(({ from = 0 }) => room >= from),
  );
}

/** Columns of one trace, for CSV; people get the waterfall. */
const spanColumns: readonly Column<TraceSpan>[] = [
  { title: "SPAN ID", key: "spanId", cell: (row) => row.spanId },
  { title: "PARENT", key: "parentSpanId", cell: (row) => row.parentSpanId },
  { title: "DEPTH", key: "depth", cell: (row) => row.depth },
  { title: "SERVICE", key: "service", cell: (row) => row.service },
  { title: "NAME", key: "name", cell: spanLabel, raw: (row) => row.name },
  { title: "KIND", key: "kind", cell: (row) => row.kind },
  { title: "START", key: "startNs", cell: (row) => row.startNs },
  { title: "DURATION", key: "durationNs", cell: (row) => row.durationNs },
  { title: "SELF", key: "selfNs", cell: (row) => row.selfNs },
  { title: "CRITICAL", key: "criticalNs", cell: (row) => row.criticalNs },
  { title: "STATUS", key: "status", cell: (row) => row.status },
  { title: "MESSAGE", key: "statusMessage", cell: (row) => row.statusMessage },
  { title: "HTTP STATUS", key: "httpStatusCode", cell: (row) => row.httpStatusCode },
];
