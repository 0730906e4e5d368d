/** One trace as a waterfall: its tree, with a bar per span on a common time axis. */

import { escapeText } from "../../../../base/escape-text.ts";
import type { TraceSpan, WholeTrace } from "../../../../tools/index.ts";
import type { Printer } from "../../../output/printer.ts";
import { padText, textWidth, truncateText } from "../../../output/text-width.ts";
import { grouped, localTime, percent, plural } from "../../../output/values.ts";
import { detailLines } from "./trace-details.ts";
import { chooseLines, type TraceLine, treePrefixes } from "./trace-lines.ts";
import { spanLabel, spanTime } from "./trace-text.ts";

/** `maxLines` bounds the waterfall only; the lists below it have their own limit. */
export interface TracePageOptions {
  wide: boolean;
  maxLines: number;
  nowMs: number;
}

/** Lines per list below the waterfall. */
const shownBelow = 5;
const bar = { critical: "█", other: "▒" };

/** Head, waterfall, legend, then lists: critical path, errors, details. */
export function tracePage(trace: WholeTrace, print: Printer, options: TracePageOptions): string {
  const { style } = print;
  const lines = chooseLines(trace.spans, options.wide ? Number.POSITIVE_INFINITY : options.maxLines);
  const room = layoutOf(lines, options.wide ? undefined : print.width);
  return `${[
    ...headLines(trace, print, options.nowMs),
    "",
    style("dim", axisLine(trace, room)),
    ...waterfall(trace, lines, room, print),
    ...legend(trace, print),
    ...criticalLines(trace, room, print),
    ...errorLines(trace, room, print),
    ...detailLines(lines, print),
  ].join("\n")}\n`;
}

/** `✗ 503`, `✗ TimeoutError`; the bare code for a 4xx or 5xx that the sender does not consider an error; else empty. */
function failureText({ status, httpStatusCode, errorType }: TraceSpan): string {
  if (status === "error") return `✗ ${httpStatusCode !== null && httpStatusCode >= 400 ? httpStatusCode : (errorType ?? "failed")}`;
  return httpStatusCode !== null && httpStatusCode >= 400 ? String(httpStatusCode) : "";
}

function headLines(
  { traceId, spans, durationNs, total, services, errors, startedAt }: WholeTrace,
  { style, width }: Printer,
  nowMs: number,
): string[] {
  // An orphan at the top is not the root: its parent is missing.
  const root = spans.find(({ depth, isOrphan }) => depth === 0 && !isOrphan) ?? spans[0];
  const title = root ? `${escapeText(root.service)}  ${escapeText(spanLabel(root))}` : "";
  const failed = errors === 0 ? "no errors" : style("red", plural(errors, "error"));
  const at = `${localTime(startedAt, nowMs)}.${startedAt.slice(20, 23)}`;
  const facts = [spanTime(durationNs), plural(total, "span"), plural(services.length, "service"), failed, at];
  return [style("bold", truncateText(title, width ?? Number.POSITIVE_INFINITY)), facts.join(" · "), style("dim", `trace ${traceId}`)];
}

/** Widths of the columns in cells. */
interface Room {
  label: number;
  bar: number;
  duration: number;
  /** Width in cells; 0 hides the column. */
  self: number;
  width: number | undefined;
}

/** Cells between two columns. */
const gapCells = 2;

/** Below 64 cells SELF is hidden. Without a terminal, names are as wide as needed and bars have 50 cells. */
function layoutOf(lines: readonly TraceLine[], width: number | undefined): Room {
  const timeCells = (read: (span: TraceSpan) => number): number =>
    lines.reduce((most, { span }) => Math.max(most, span ? textWidth(spanTime(read(span))) : 0), 0);
  const duration = Math.max(
    "DURATION".length,
    timeCells(({ durationNs }) => durationNs),
  );
  const self =
    width !== undefined && width < 64
      ? 0
      : Math.max(
          "SELF".length,
          timeCells(({ selfNs }) => selfNs),
        );
  if (width === undefined) {
    const longest = lines.reduce((most, line) => Math.max(most, 2 * line.depth + textWidth(labelOf(line))), 0);
    return { label: Math.max(20, longest) + 2, bar: 50, duration, self, width };
  }
  const free = width - duration - gapCells - (self > 0 ? self + gapCells : 0) - gapCells;
  // Names get slightly more than half: bars stay readable with a few cells, names do not.
  const label = Math.max(12, Math.min(80, Math.floor(free * 0.55)));
  return { label, bar: Math.max(4, free - label), duration, self, width };
}

/** The axis shows its end only if the bar is wide enough for it. */
function axisLine({ durationNs }: WholeTrace, room: Room): string {
  const end = spanTime(durationNs);
  const axis = room.bar > end.length + 2 ? `0${padText(end, room.bar - 1, "right")}` : " ".repeat(room.bar);
  return columns(padText("  SPAN", room.label, "left"), axis, "DURATION", "SELF", room);
}

function columns(label: string, drawn: string, duration: string, self: string, room: Room): string {
  const gap = " ".repeat(gapCells);
  const times = `${padText(duration, room.duration, "right")}${room.self > 0 ? gap + padText(self, room.self, "right") : ""}`;
  return `${label}${gap}${drawn}${gap}${times}`.trimEnd();
}

/** Deep traces get fewer branch levels on narrow terminals: five cells of label per level remain for the name. */
function waterfall(trace: WholeTrace, lines: readonly TraceLine[], room: Room, print: Printer): string[] {
  const prefixes = treePrefixes(lines, Math.max(1, Math.floor((room.label - 2) / 5) - 1));
  return lines.map((line, index) => {
    const prefix = prefixes[index] ?? "";
    return line.span ? spanLine(line, line.span, prefix, trace, room, print) : hiddenLine(line, prefix, room, print);
  });
}

/** Stands for omitted descendants. Their maximum duration shows that none of them matters much. */
function hiddenLine({ hidden }: TraceLine, prefix: string, room: Room, { style }: Printer): string {
  const text = `  ${prefix}… ${plural(hidden?.spans ?? 0, "more span")}, at most ${spanTime(hidden?.longestNs ?? 0)} each`;
  return style("dim", truncateText(text, room.width ?? Number.POSITIVE_INFINITY));
}

/** Shows the service only where it differs from the parent's. */
function labelOf({ span, parent }: TraceLine): string {
  if (!span) return "";
  const failure = failureText(span);
  return `${serviceOf(span, parent)}${escapeText(spanLabel(span))}${failure === "" ? "" : ` ${escapeText(failure)}`}`;
}

function serviceOf(span: TraceSpan, parent: TraceSpan | undefined): string {
  return span.service === parent?.service ? "" : `${escapeText(span.service)}  `;
}

function spanLine(line: TraceLine, span: TraceSpan, prefix: string, trace: WholeTrace, room: Room, { style }: Printer): string {
  const isCritical = span.criticalNs !== null;
  const mark = isCritical ? "*" : span.isOrphan ? "?" : " ";
  const failure = escapeText(failureText(span));
  const isFailed = span.status === "error";
  // A failure must stay visible when the name is truncated.
  const failureCells = failure === "" ? 0 : Math.min(textWidth(failure), Math.max(1, Math.floor(room.label / 3))) + 1;
  const textCells = Math.max(1, room.label - 2 - textWidth(prefix) - failureCells);
  const service = truncateText(serviceOf(span, line.parent), textCells);
  const name = truncateText(escapeText(spanLabel(span)), textCells - textWidth(service));
  const shownFailure = failure === "" ? "" : ` ${truncateText(failure, failureCells - 1)}`;
  const padding = " ".repeat(
    Math.max(0, room.label - 2 - textWidth(prefix) - textWidth(service) - textWidth(name) - textWidth(shownFailure)),
  );
  const label = [
    `${isCritical ? style("yellow", mark) : mark} ${style("dim", prefix)}`,
    service === "" ? "" : style("cyan", service),
    name,
    shownFailure === "" ? "" : style(isFailed ? "red" : "yellow", shownFailure),
    padding,
  ];
  return columns(label.join(""), drawBar(span, trace, room, style), spanTime(span.durationNs), spanTime(span.selfNs), room);
}

function drawBar(span: TraceSpan, { durationNs }: WholeTrace, room: Room, style: Printer["style"]): string {
  const scale = durationNs > 0 ? room.bar / durationNs : 0;
  // At least one cell, clipped to the axis: short spans must be visible, and clock skew can put one outside.
  const start = Math.max(0, Math.min(room.bar - 1, Math.floor(span.startNs * scale)));
  const end = Math.max(start + 1, Math.min(room.bar, Math.round((span.startNs + span.durationNs) * scale)));
  const isCritical = span.criticalNs !== null;
  const drawn = (isCritical ? bar.critical : bar.other).repeat(end - start);
  const styled = span.status === "error" ? style("red", drawn) : isCritical ? style("yellow", drawn) : style("dim", drawn);
  return `${" ".repeat(start)}${styled}${" ".repeat(room.bar - end)}`;
}

function legend({ spans }: WholeTrace, { style, width }: Printer): string[] {
  if (spans.length < 2) return [];
  const parts = [`* ${bar.critical} on the critical path`];
  if (spans.some(({ criticalNs }) => criticalNs === null)) parts.push(`${bar.other} not`);
  if (spans.some(({ isOrphan }) => isOrphan)) parts.push("? its parent is missing");
  return [style("dim", truncateText(`  ${parts.join(" · ")}`, width ?? Number.POSITIVE_INFINITY))];
}

/** Spans with the largest self time on the critical path. Sums repeated calls, because many short ones are easily missed. */
function criticalLines({ spans, durationNs }: WholeTrace, { width }: Room, { style }: Printer): string[] {
  if (spans.length < 2) return [];
  const parts = new Map<string, { label: string; ns: number; times: number }>();
  for (const span of spans) {
    // A parent that only waits is on the path without self time.
    if (span.criticalNs === null || span.criticalNs === 0) continue;
    const label = `${escapeText(span.service)}  ${escapeText(spanLabel(span))}`;
    const { ns, times } = parts.get(label) ?? { ns: 0, times: 0 };
    parts.set(label, { label, ns: ns + span.criticalNs, times: times + 1 });
  }
  const sorted = [...parts.values()].sort((a, b) => b.ns - a.ns);
  const shown = sorted.slice(0, shownBelow);
  const cells = shown.reduce((most, { ns }) => Math.max(most, textWidth(spanTime(ns))), 0);
  const lines = shown.map(({ label, ns, times }) => {
    const share = padText(percent(durationNs > 0 ? ns / durationNs : 0) ?? "", 5, "right");
    const head = `  ${padText(spanTime(ns), cells, "right")}  ${share}  ${times > 1 ? `${grouped(times)} × ` : ""}`;
    return truncateText(`${head}${label}`, width ?? Number.POSITIVE_INFINITY);
  });
  const rest = sorted.slice(shownBelow);
  const restNs = rest.reduce((sum, { ns }) => sum + ns, 0);
  const more = restNs > 0 ? [style("dim", `  ${padText(spanTime(restNs), cells, "right")}  in ${plural(rest.length, "other")}`)] : [];
  return ["", style("bold", "Where the time went"), ...lines, ...more];
}

function errorLines({ spans }: WholeTrace, { width }: Room, { style }: Printer): string[] {
  const failed = spans.filter(({ status }) => status === "error");
  if (failed.length === 0) return [];
  const lines = failed.slice(0, shownBelow).map((span) => {
    const why = [...new Set([span.httpStatusCode, span.errorType, span.statusMessage].filter((part) => part !== null && part !== ""))].join(
      " ",
    );
    const text = `  ${escapeText(span.service)}  ${escapeText(spanLabel(span))}${why === "" ? "" : `: ${escapeText(why)}`}`;
    return truncateText(text, width ?? Number.POSITIVE_INFINITY);
  });
  const more = failed.length - shownBelow;
  return ["", style("bold", "Errors"), ...lines, ...(more > 0 ? [style("dim", `  … and ${plural(more, "more", "more")}`)] : [])];
}
