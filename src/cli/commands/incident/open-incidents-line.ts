/** One line about open incidents, for pages about other things. */

import { escapeText } from "../../../base/escape-text.ts";
import type { OpenIncidents } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { textWidth, truncateText } from "../../output/text-width.ts";
import { localTime, plural } from "../../output/values.ts";
import { pageWidth } from "../diagnosis/page-text.ts";
import { lasted, measure } from "./incident-text.ts";

/** Least cells for the service name. */
const leastName = 6;

/** `1 open incident: api fails 34% since 22:01 (coral incidents show inc-7)`; empty when there is none. */
export function openIncidentsLine(
  incidents: OpenIncidents | undefined,
  { style, width = pageWidth, commands }: Printer,
  nowMs: number,
): string[] {
  if (incidents === undefined) return [];
  const { open, worst } = incidents;
  const head = open === 1 ? "1 open incident:" : `${plural(open, "open incident")}, worst:`;
  const hint = commands(open === 1 ? `coral incidents show ${worst.id}` : "coral incidents");
  const tail = ` ${stateOf(worst)} ${timeOf(worst.endedAt ?? worst.since, nowMs)} (${hint})`;
  const room = Math.max(leastName, width - textWidth(head) - textWidth(tail) - 1);
  return [`${style(worst.severity === "critical" ? "red" : "yellow", head)} ${truncateText(escapeText(worst.service), room)}${tail}`];
}

/** Current state of the worst symptom, or that it has ended and the incident is about to close. */
function stateOf({ endedAt, measure: kind, now }: OpenIncidents["worst"]): string {
  if (endedAt !== null) return "recovering";
  if (kind === "down") return "is down";
  return kind === "latency" ? "is slow" : now === null ? "fails" : `fails ${measure(now, kind)}`;
}

/** Local time to the minute. */
function timeOf(iso: string, nowMs: number): string {
  const text = localTime(iso, nowMs);
  // A date and time would take too much of the line.
  return /^\d\d:\d\d:\d\d$/.test(text) ? `since ${text.slice(0, -3)}` : `for ${lasted(nowMs - Date.parse(iso))}`;
}
