import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes } from "../../../base/units.ts";
import type { AgentOtlpStatus } from "../../../tools/index.ts";
import type { Style, StyleName } from "../../output/style.ts";
import { number, percent, plural } from "../../output/values.ts";

const stateStyles: Record<AgentOtlpStatus["state"], StyleName> = { on: "green", unavailable: "yellow", off: "yellow" };
const rowNames: Readonly<Record<string, string>> = { traces: "span", logs: "log record", metrics: "data point" };

/** The OTLP lines of `coral agent status`: listening addresses, amounts received, and losses. */
export function otlpLines(otlp: AgentOtlpStatus, style: Style): string[] {
  const { state, reason, grpc, http, received, sampling, forward, workerRestarts } = otlp;
  const listeners = [grpc === null ? "" : `gRPC ${escapeText(grpc)}`, http === null ? "" : `HTTP ${escapeText(http)}`].filter(Boolean);
  const lines = [`  otlp       ${[style(stateStyles[state] ?? "yellow", state), ...listeners].join(", ")}`];
  if (reason !== null) lines.push(`             ${style("yellow", escapeText(reason))}`);
  const kept = received.filter(({ rows }) => rows > 0).map(({ signal, rows }) => plural(rows, rowNames[signal] ?? "row"));
  if (kept.length > 0) lines.push(`             received since start: ${kept.join(", ")}`);
  for (const { signal, rejected, refused } of received) {
    const parts = [rejected > 0 ? `${number(rejected)} rejected` : "", refused > 0 ? `${plural(refused, "request")} refused` : ""].filter(
      Boolean,
    );
    if (parts.length > 0) lines.push(`             ${style("yellow", `${escapeText(signal)}: ${parts.join(", ")}`)}`);
  }
  if (sampling.share < 1 || sampling.droppedSpans > 0) {
    lines.push(
      `             sampling keeps ${percent(sampling.share)} of ordinary traces; ${number(sampling.droppedSpans)} spans dropped so far`,
    );
  }
  if (workerRestarts > 0) lines.push(`             ${style("yellow", `${plural(workerRestarts, "restart")} of decode threads`)}`);
  if (forward !== null) lines.push(...forwardLines(forward, style));
  return lines;
}

/** Forwarding to another endpoint. Refused: the endpoint answered with an error that a retry cannot fix. Dropped: the queue was full. */
function forwardLines(forward: NonNullable<AgentOtlpStatus["forward"]>, style: Style): string[] {
  const { endpoint, sent, dropped, refused, queuedBytes, problem } = forward;
  const lost = dropped + refused > 0 ? style("yellow", `, ${number(dropped)} dropped, ${number(refused)} refused`) : "";
  const lines = [
    `             forwarded to ${escapeText(endpoint)}: ${plural(sent, "request")}${lost}, ${formatBytes(queuedBytes)} queued`,
  ];
  if (problem !== "") lines.push(`             ${style("yellow", escapeText(problem))}`);
  return lines;
}
