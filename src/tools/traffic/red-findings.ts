/** Deterministic rules over requests: each finding has the value and the threshold. */

import { routeText } from "../../model/route-text.ts";
import type { RedFinding, RedRow } from "../schemas/traffic.ts";

const findingsMax = 10;
/** Fewer requests are too few for a share or a percentile. */
const enoughRequests = 20;
/** A request below this is fast enough, however much faster it was before. */
const leastSlowUs = 2_000;
const leastQueuedUs = 5_000;

const severities: RedFinding["severity"][] = ["critical", "warning", "info"];

/** Worst first, then by requests. */
export function redFindings(rows: readonly RedRow[]): RedFinding[] {
  const found = rows
    .filter((row) => row.requests >= enoughRequests)
    .flatMap((row) => [...errorShare(row), ...slower(row), ...queueing(row)].map((finding) => ({ finding, requests: row.requests })));
  return found
    .sort((a, b) => severities.indexOf(a.finding.severity) - severities.indexOf(b.finding.severity) || b.requests - a.requests)
    .slice(0, findingsMax)
    .map(({ finding }) => finding);
}

/** What a row is about, besides its service: `GET /users/{id}`, `to db`, `status 500`. */
export function redSubject(row: Pick<RedRow, "method" | "route" | "peer" | "status" | "role">): string {
  if (row.route !== null) return routeText(row.method ?? "", row.route);
  if (row.peer !== null) return `${row.role === "client" ? "to" : "from"} ${row.peer}`;
  return row.status === null ? "" : `status ${row.status === "" ? "none" : row.status}`;
}

function errorShare(row: RedRow): RedFinding[] {
  const severity = row.errorRatio > 0.25 ? "critical" : "warning";
  const threshold = severity === "critical" ? 0.25 : 0.05;
  // By status, a row of errors is always all errors.
  if (row.errorRatio <= threshold || row.status !== null) return [];
  const message = `${named(row)}: ${share(row.errorRatio)} of ${row.requests} requests ${row.role === "client" ? "it sent" : "to it"} failed`;
  return [finding("error-share", severity, row, message, row.errorRatio, threshold, "ratio")];
}

function slower(row: RedRow): RedFinding[] {
  const before = row.before === null || row.before.requests < enoughRequests ? null : row.before.p95Us;
  if (row.p95Us === null || before === null || before <= 0 || row.p95Us < leastSlowUs) return [];
  const times = row.p95Us / before;
  if (times <= 2) return [];
  const message = `${named(row)}: p95 is ${milliseconds(row.p95Us)}, ${times.toFixed(1)} times the ${milliseconds(before)} of the period before`;
  return [finding("slower-than-before", times > 5 ? "critical" : "warning", row, message, times, times > 5 ? 5 : 2, "times")];
}

function queueing(row: RedRow): RedFinding[] {
  const { queueMeanUs, meanUs } = row;
  if (queueMeanUs === null || meanUs === null || meanUs <= 0 || queueMeanUs < leastQueuedUs) return [];
  const part = queueMeanUs / meanUs;
  if (part <= 0.5) return [];
  const message = `${named(row)}: requests wait ${milliseconds(queueMeanUs)} of ${milliseconds(meanUs)} before the server reads them: too few workers or not enough CPU`;
  return [finding("queueing", "warning", row, message, part, 0.5, "ratio")];
}

function finding(
  rule: RedFinding["rule"],
  severity: RedFinding["severity"],
  row: RedRow,
  message: string,
  value: number,
  threshold: number,
  unit: RedFinding["unit"],
): RedFinding {
  return { rule, severity, service: row.service, subject: redSubject(row), message, value, threshold, unit };
}

function named(row: RedRow): string {
  const subject = redSubject(row);
  return subject === "" ? `${row.service} (${row.protocol})` : `${row.service} ${subject}`;
}

function share(ratio: number): string {
  return `${(ratio * 100).toFixed(ratio < 0.1 ? 1 : 0)}%`;
}

function milliseconds(us: number): string {
  return `${(us / 1_000).toFixed(us < 10_000 ? 1 : 0)} ms`;
}
