/** Formats one captured request: a line, plus details in wide form. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes } from "../../../base/units.ts";
import { beginsWithWord } from "../../../model/route-text.ts";
import type { CapturedRequest } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import type { StyleName } from "../../output/style.ts";
import { padText, textWidth, truncateText } from "../../output/text-width.ts";
import { latency } from "../../output/values.ts";

/** Least cells for path or statement. */
const leastTarget = 16;
const methodWidth = 6;
const protocolWidth = 8;
/** Narrower terminals omit the protocol. */
const narrowWidth = 60;

/** `08:12:33.123  http  GET    /users/7?token=***   200  12.3ms  1.2 KiB → 3.4 KiB  web → shop`. */
export function captureLine(request: CapturedRequest, print: Printer): string {
  const { style, width } = print;
  const time = timeText(request.at);
  const status = request.status === "" ? "-" : request.status;
  const [client, server] = endsOf(request);
  const sizes = `${formatBytes(request.requestBytes)} → ${formatBytes(request.responseBytes)}`;
  const took = padText(latency(request.durationUs) ?? "-", 6, "right");
  const protocol = width !== undefined && width < narrowWidth ? "" : `${padText(protocolText(request), protocolWidth, "left")}  `;
  const head = `${time}  ${protocol}${padText(escapeText(request.method), methodWidth, "left")} `;
  const before = `  ${padText(escapeText(status), 3, "right")}  ${took}`;
  const details = `  ${sizes}  ${escapeText(`${client} → ${server}`)}`;
  const target = escapeText(targetText(request));
  if (width === undefined) return `${head}${target}${before}${details}`;
  const used = textWidth(head) + textWidth(before);
  // On a narrow terminal drop the details first.
  const isRoom = width - used - textWidth(details) >= leastTarget;
  const room = Math.max(4, width - used - (isRoom ? textWidth(details) : 0));
  const shown = padText(truncateText(target, room), room, "left");
  const styled = request.isError ? style(statusStyle(request), before) : before;
  return `${style("dim", head)}${shown}${styled}${isRoom ? style("dim", details) : ""}`;
}

/** Both ends by service name, or by address where the service is unknown. */
function endsOf({ role, service, peer, client, server }: CapturedRequest): [client: string, server: string] {
  return role === "server" ? [peer ?? client, service] : [service, peer ?? server];
}

function protocolText({ protocol, isTls }: CapturedRequest): string {
  return escapeText(isTls ? `${protocol}+tls` : protocol);
}

/** Removes the leading verb of a statement or command, which the method column already shows. */
function targetText({ method, target }: CapturedRequest): string {
  return beginsWithWord(target, method) ? target.slice(method.length).trimStart() : target;
}

/** Details of -o wide: both ends, timings, allowed headers, first bytes of bodies. */
export function captureDetails(request: CapturedRequest, { style }: Printer, hasBodies: boolean): string[] {
  const times = [
    ...(request.queueUs === null ? [] : [`queue ${latency(request.queueUs)}`]),
    ...(request.firstByteUs === null ? [] : [`first byte ${latency(request.firstByteUs)}`]),
  ];
  const facts = [
    request.role === "server" ? "served" : "sent",
    request.isTls ? `${request.protocol} over TLS` : request.protocol,
    `route ${request.route}`,
    ...times,
    `pid ${request.pid} on ${request.hostname}`,
    `${request.client} → ${request.server}`,
  ];
  const lines = [style("dim", `    ${facts.map(escapeText).join(" · ")}`)];
  for (const [sign, headers] of [
    [">", request.requestHeaders],
    ["<", request.responseHeaders],
  ] as const)
    for (const [name, value] of headers) lines.push(`    ${style("cyan", sign)} ${escapeText(`${name}: ${value}`)}`);
  if (hasBodies) lines.push(...bodyLines(">", request.requestBody, style), ...bodyLines("<", request.responseBody, style));
  return lines;
}

/** One marked line per line of the body. Control characters are escaped. */
function bodyLines(sign: string, body: string | null, style: Printer["style"]): string[] {
  if (body === null || body === "") return [];
  return body.split("\n").map((line) => `    ${style("cyan", `${sign}${sign}`)} ${escapeText(line.replace(/\r$/, ""))}`);
}

function timeText(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return escapeText(iso);
  return `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

function statusStyle({ status }: CapturedRequest): StyleName {
  return status.startsWith("4") ? "yellow" : "red";
}
