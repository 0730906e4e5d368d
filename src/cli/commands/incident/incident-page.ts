/** An incident on one screen: affected service, cause, evidence, timeline, next steps. */

import type { IncidentDetail, IncidentSymptomView } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { localTime, percent } from "../../output/values.ts";
import { cut, evidenceLine, nextLine, wholeEvidence, wrapped } from "../diagnosis/page-text.ts";
import { indicator, lasted, measure, stateStyle } from "./incident-text.ts";

const shown = { symptoms: 3, evidence: 3, changes: 3, timeline: 6 };

/** Fits one screen; -o json has every symptom and event. */
export function incidentPage(incident: IncidentDetail, print: Printer, nowMs: number): string {
  const { style } = print;
  const { id, state, severity, since, durationMs, service, cause, confidence, mergedInto } = incident;
  const at = (iso: string): string => localTime(iso, nowMs);
  const part = mergedInto === null ? "" : ` · part of ${mergedInto}`;
  const lines = [
    `${style("bold", id)}  ${style(stateStyle(state), state)} · ${severity} · since ${at(since)} · ${state === "open" ? "lasts" : "lasted"} ${lasted(durationMs)}${part}`,
    ...incident.symptoms.slice(0, shown.symptoms).map((symptom) => symptomLine(symptom, print)),
  ];
  const rest = incident.symptoms.length - shown.symptoms;
  if (rest > 0) lines.push(style("dim", `  and ${rest} more; -o json has all`));
  lines.push("");
  if (cause === null) lines.push(wrapped(`cause: none found yet; run coral diagnose ${service}`, print));
  else lines.push(style("bold", wrapped(`cause: ${cause} (${percent(confidence)} sure)`, print)));
  lines.push(
    ...incident.evidence
      .slice(0, shown.evidence)
      .map(({ id, statement }, place) => (place === 0 ? wholeEvidence : evidenceLine)(id, statement, print)),
  );
  if (incident.chain.length > 1) lines.push(wrapped(`path: ${incident.chain.join(" → ")}`, print));
  if (incident.ruledOut[0]) lines.push(cut(`ruled out: ${incident.ruledOut[0].service}: ${incident.ruledOut[0].reason}`, print));
  if (incident.changes.length > 0) {
    lines.push("", style("bold", "What changed"));
    for (const change of incident.changes.slice(0, shown.changes)) lines.push(cut(`  ${at(change.at)}  ${change.message}`, print));
  }
  lines.push("", style("bold", "Timeline"));
  const { timeline } = incident;
  const ends = timeline.length <= shown.timeline ? timeline : [...timeline.slice(0, 2), ...timeline.slice(2 - shown.timeline)];
  for (const moment of ends) lines.push(cut(`  ${at(moment.at)}  ${moment.text}`, print));
  if (incident.next.length > 0) lines.push("");
  for (const { command } of incident.next) lines.push(nextLine(command, print));
  return `${lines.join("\n")}\n`;
}

function symptomLine(symptom: IncidentSymptomView, print: Printer): string {
  const { service, measure: kind, usual, worst, now, limit, isDeclared, isOver, message } = symptom;
  if (kind === "down") return cut(`  ${service}: ${message}${isOver ? " (runs again)" : ""}`, print);
  const normal = isDeclared ? `objective ${measure(limit, kind)}` : usual === null ? "" : `usual ${measure(usual, kind)}`;
  const figures = [`now ${measure(now, kind)}`, `worst ${measure(worst, kind)}`, normal].filter((text) => text !== "").join(", ");
  return cut(`  ${service}: ${indicator(symptom)} ${figures}${isOver ? " (back)" : ""}`, print);
}
