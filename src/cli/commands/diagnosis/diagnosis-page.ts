/** A diagnosis on one screen: the answer, then the evidence, then next steps. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatDurationMs } from "../../../base/units.ts";
import type { DiagnosisResult, EvidenceResult } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { localTime, percent } from "../../output/values.ts";
import { cut, evidenceLine, nextLine, wholeEvidence, wrapped } from "./page-text.ts";

const shown = { evidence: 3, others: 3 };

/** The answer must be readable without scrolling: at most a few causes, and everything else behind evidence ids. */
export function diagnosisPage(answer: DiagnosisResult, print: Printer, nowMs: number): string {
  const { style } = print;
  const [first, ...others] = answer.causes;
  if (!first)
    return `${style(answer.verdict === "no-issue" ? "green" : "yellow", wrapped(answer.summary, print))}\n${timesText(answer, nowMs)}\n`;
  const lines = [
    style("bold", wrapped(`${answer.summary} (${percent(first.confidence)} sure)`, print)),
    ...first.evidence
      .slice(0, shown.evidence)
      .map(({ id, statement }, place) => (place === 0 ? wholeEvidence : evidenceLine)(id, statement, print)),
    timesText(answer, nowMs),
  ];
  if (first.chain.length > 1) lines.push(wrapped(`path: ${first.chain.join(" → ")}`, print));
  if (first.change !== null) lines.push(wrapped(`changed just before: ${first.change}`, print));
  if (others.length > 0) {
    lines.push("", "Less likely");
    for (const cause of others.slice(0, shown.others)) {
      lines.push(cut(`  ${cause.summary} (${percent(cause.confidence)})`, print));
      const [evidence] = cause.evidence;
      if (evidence) lines.push(evidenceLine(evidence.id, evidence.statement, print));
    }
  }
  if (answer.ruledOut.length > 0) {
    lines.push("", "Ruled out");
    for (const { service, reason } of answer.ruledOut) lines.push(cut(`  ${service}: ${reason}`, print));
  }
  lines.push("");
  for (const { command, why } of answer.next) lines.push(nextLine(command, print), style("dim", cut(`      ${why}`, print)));
  return `${lines.join("\n")}\n`;
}

/** Raw figures in the unit of the metric, for comparison with other tools. */
export function evidencePage(evidence: EvidenceResult, print: Printer, nowMs: number): string {
  const { style } = print;
  const compared = evidence.comparedWith.map(({ from, until }) => `${localTime(from, nowMs)} to ${localTime(until, nowMs)}`).join(", ");
  return `${[
    `${style("bold", escapeText(evidence.service))}  ${evidence.kind} · ${evidence.id}`,
    wrapped(evidence.statement, print),
    wrapped(
      `${evidence.name}: usual ${Number(evidence.usual.toPrecision(3))}, now ${Number(evidence.now.toPrecision(3))}${evidence.unit === "" ? "" : ` (${evidence.unit})`}`,
      print,
    ),
    `time in question: ${localTime(evidence.from, nowMs)} to ${localTime(evidence.until, nowMs)}`,
    `compared with: ${compared}`,
    ...evidence.commands.map((command) => `more: ${escapeText(print.commands(command))}`),
  ].join("\n")}\n`;
}

/** `since` for a detected onset, `from` for a time range that was only assumed. */
function timesText({ from, until, comparedWith, isOnsetFound, isOver }: DiagnosisResult, nowMs: number): string {
  const usualMs = comparedWith.reduce((sum, one) => sum + Date.parse(one.until) - Date.parse(one.from), 0);
  const lasted = formatDurationMs(Math.round((Date.parse(until) - Date.parse(from)) / 1_000) * 1_000);
  const usual = usualMs < 30_000 ? "no baseline" : `compared with ${formatDurationMs(Math.round(usualMs / 60_000) * 60_000)} before`;
  const over = isOver ? `, over for ${formatDurationMs(Math.round((nowMs - Date.parse(until)) / 1_000) * 1_000)}` : "";
  return `${isOnsetFound ? "since" : "from"} ${localTime(from, nowMs)} (${lasted})${over}, ${usual}`;
}
