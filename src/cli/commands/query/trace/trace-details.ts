/** Attributes, events and links of the spans of one trace, below its waterfall, for `--details`. */

import { escapeText } from "../../../../base/escape-text.ts";
import { parseExactJson } from "../../../../base/exact-json.ts";
import type { TraceSpan } from "../../../../tools/index.ts";
import type { Printer } from "../../../output/printer.ts";
import { truncateText } from "../../../output/text-width.ts";
import type { TraceLine } from "./trace-lines.ts";
import { spanLabel, spanTime } from "./trace-text.ts";

/** Only spans that have a line in the waterfall get details. */
export function detailLines(lines: readonly TraceLine[], { style, width }: Printer): string[] {
  const parts = lines.flatMap(({ span }) => {
    const found = span ? factsOf(span) : [];
    if (!span || found.length === 0) return [];
    const head = `  ${style("cyan", escapeText(span.service))}  ${escapeText(spanLabel(span))}  ${style("dim", span.spanId)}`;
    return [head, ...found.map((line) => truncateText(`    ${escapeText(line)}`, width ?? Number.POSITIVE_INFINITY))];
  });
  return parts.length === 0 ? [] : ["", style("bold", "Details"), ...parts];
}

function factsOf({ attributes, events, links, dropped }: TraceSpan): string[] {
  const lines = [...attributeLines(attributes), ...listIn(events).map(eventLine), ...listIn(links).map(linkLine)];
  return dropped > 0 ? [...lines, `${dropped} dropped or truncated by the sender or by Coral`] : lines;
}

/** One `name = value` line per attribute; a truncated list as a whole. */
function attributeLines(json: string | null): string[] {
  const value = parse(json);
  // Long values arrive truncated, and are then not valid JSON.
  if (typeof value === "string") return value === "" ? [] : [value];
  return fieldsIn(value).map(([name, each]) => `${name} = ${textOf(each)}`);
}

/** `event exception at 3.2ms: exception.type = …`; the offset is from the start of the span. */
function eventLine(event: unknown): string {
  if (typeof event === "string") return `event ${event}`;
  const { offset_ns: offsetNs, name, attributes } = Object.fromEntries(fieldsIn(event));
  const at = typeof offsetNs === "number" ? ` at ${spanTime(Math.abs(offsetNs))}` : "";
  const more = fieldsIn(attributes).map(([key, each]) => `${key} = ${textOf(each)}`);
  return `event ${textOf(name)}${at}${more.length === 0 ? "" : `: ${more.join(", ")}`}`;
}

function linkLine(link: unknown): string {
  return typeof link === "string"
    ? `link ${link}`
    : `link ${fieldsIn(link)
        .map(([key, each]) => `${key} ${textOf(each)}`)
        .join(", ")}`;
}

function listIn(json: string | null): unknown[] {
  const value = parse(json);
  return Array.isArray(value) ? value : value === "" ? [] : [value];
}

function fieldsIn(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** The raw text when it is not valid JSON. */
function parse(json: string | null): unknown {
  if (json === null) return "";
  try {
    return parseExactJson(json);
  } catch {
    // Truncated at the colony: shown as received.
    return json;
  }
}
