import { escapeText } from "../../../base/escape-text.ts";
import type { LogPattern, LogRecord, LogResult } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import type { StyleName } from "../../output/style.ts";
import { type Cell, type Column, renderTable, type Table, tableOf, valueColumn } from "../../output/table.ts";
import { padText, textWidth, truncateText } from "../../output/text-width.ts";
import { localTime, rate } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";

/** `coral query logs [service]`: one line per record, newest last, or one per pattern. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print } = invocation;
  const { since } = toolInput(invocation, "coral_query_logs");
  await showTool(invocation, "coral_query_logs", {
    table: tableIn,
    page: (answer, wide) =>
      answer.by === "pattern"
        ? renderTable(tableIn(answer), { wide, width: wide ? undefined : print.width, style: print.style })
        : recordLines(answer.records, print, { wide, isOneService: args[0] !== undefined }),
    // The line below the page already names --page: drop the note.
    pageShows: ({ next }, note) => next !== null && note.kind === "limit" && note.message.includes(next),
    after: ({ next, records }) => {
      if (next !== null) print.note(`Showing the newest ${records.length} records; add --page ${next} for older ones`);
    },
    empty: `No matching log records in the last ${since}; look further back with --since`,
  });
}

const styles: Record<string, StyleName | undefined> = {
  fatal: "red",
  error: "red",
  warn: "yellow",
  info: "green",
  debug: "dim",
  trace: "dim",
};
/** `ERROR` and `FATAL`. */
const levelWidth = 5;
/** Longer service names are truncated, so that one does not push every message to the right. */
const longestService = 24;
/** Least width for the text; narrower terminals wrap the line. */
const leastBody = 20;

/** `08:12:33.123 ERROR api  connection refused`; wide adds attributes and ids. */
function recordLines(records: readonly LogRecord[], print: Printer, shown: { wide: boolean; isOneService: boolean }): string {
  const { style } = print;
  const width = shown.wide ? undefined : print.width;
  const nowMs = Date.now();
  const names = new Set(records.map(({ service }) => service));
  // Omit the service name when every line would repeat it.
  const isNamed = !shown.isOneService || names.size > 1;
  const nameWidth = Math.min(longestService, Math.max(0, ...[...names].map((name) => textWidth(escapeText(name)))));
  const lines = records.map((record) => {
    const time = timeText(record.at, nowMs);
    const level = padText(levelText(record), levelWidth, "left");
    const name = isNamed ? `${padText(truncateText(escapeText(record.service), nameWidth), nameWidth, "left")}  ` : "";
    const room = width === undefined ? undefined : Math.max(leastBody, width - textWidth(time) - levelWidth - textWidth(name) - 2);
    const body = bodyText(record);
    const text = room === undefined ? body : truncateText(body, room);
    const levelStyle = styles[record.severity];
    return [
      style("dim", time),
      levelStyle === undefined ? level : style(levelStyle, level),
      `${isNamed ? style("cyan", name) : ""}${text}${shown.wide ? style("dim", besideText(record)) : ""}`,
    ].join(" ");
  });
  // Newest last, next to the prompt.
  return lines.length === 0 ? "" : `${lines.reverse().join("\n")}\n`;
}

/** The sender's severity text where it maps to no level. */
function levelText({ severity, severityText }: LogRecord): string {
  return severity === "" ? truncateText(escapeText(severityText ?? "-"), levelWidth) : severity.toUpperCase();
}

/** Omits the exception type when the message already contains it. */
function bodyText({ body, isCut, eventName, exceptionType }: LogRecord): string {
  const head = [eventName, exceptionType].filter((text) => text !== null && !body.includes(text)).join(" ");
  return escapeText([head, body.trimEnd()].filter((text) => text !== "").join(": ")) + (isCut ? " …" : "");
}

/** Trace id, pattern and agent for -o wide. They follow the message, which people read first. */
function besideText({ traceId, pattern, agentId, attributes }: LogRecord): string {
  const parts = [
    ...(traceId === null ? [] : [`trace=${traceId}`]),
    ...(pattern === null ? [] : [`pattern=${pattern}`]),
    `agent=${agentId}`,
    ...(attributes === null ? [] : [JSON.stringify(attributes)]),
  ];
  return escapeText(`  ${parts.join(" ")}`);
}

/** Local time with milliseconds, to order records of the same second. */
function timeText(iso: string, nowMs: number): string {
  return `${localTime(iso, nowMs)}.${iso.slice(20, 23)}`;
}

function tableIn(answer: LogResult): Table {
  const nowMs = Date.now();
  return answer.by === "pattern" ? tableOf(answer.patterns, patternColumns(nowMs)) : tableOf(answer.records, recordColumns(nowMs));
}

function severityCell({ severity }: { severity: string }): Cell {
  const style = styles[severity];
  return style === undefined ? severity : { text: severity, style };
}

/** For CSV, one row per record with raw values. */
function recordColumns(nowMs: number): readonly Column<LogRecord>[] {
  return [
    { title: "TIME", key: "at", cell: (row) => timeText(row.at, nowMs), raw: (row) => row.at },
    { title: "SEVERITY", key: "severity", cell: severityCell, raw: (row) => row.severity },
    { title: "SERVICE", key: "service", cell: (row) => row.service },
    { title: "BODY", key: "body", align: "left", cell: (row) => row.body },
    { title: "TRACE", key: "traceId", align: "left", cell: (row) => row.traceId },
    { title: "SPAN", key: "spanId", align: "left", cell: (row) => row.spanId },
    { title: "EXCEPTION", key: "exceptionType", align: "left", cell: (row) => row.exceptionType },
    { title: "PATTERN", key: "pattern", align: "left", cell: (row) => row.pattern },
    { title: "AGENT", key: "agentId", cell: (row) => row.agentId },
  ];
}

function patternColumns(nowMs: number): readonly Column<LogPattern>[] {
  return [
    { title: "RECORDS", key: "records", cell: (row) => row.records },
    valueColumn("PER MIN", "perMinute", (row) => row.perMinute, rate, { align: "right" }),
    { title: "SEVERITY", key: "severity", cell: severityCell, raw: (row) => row.severity },
    { title: "SERVICE", key: "service", cell: (row) => row.service },
    {
      title: "NEW",
      key: "isNew",
      cell: (row) => (row.isNew ? { text: "new", style: "yellow" } : ""),
      raw: (row) => row.isNew,
    },
    { title: "PATTERN", key: "pattern", align: "left", cell: (row) => row.pattern },
    { title: "TEMPLATE", key: "template", align: "left", cell: (row) => row.template },
    { title: "FIRST", key: "firstAt", cell: (row) => localTime(row.firstAt, nowMs), raw: (row) => row.firstAt, wide: true },
    { title: "LAST", key: "lastAt", cell: (row) => localTime(row.lastAt, nowMs), raw: (row) => row.lastAt, wide: true },
    { title: "EXAMPLE", key: "example", align: "left", cell: (row) => row.example, wide: true },
  ];
}
