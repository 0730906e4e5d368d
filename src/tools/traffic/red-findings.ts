/** Findings for the rows of an answer, from the verdicts of `coral query summary` so that both always agree. */

import { routeText } from "../../model/route-text.ts";
import { type JudgedRoute } from "../health/judge-route.ts";
import { thresholds } from "../health/thresholds.ts";
import { errorMessage, queueMessage, routeName, slowMessage } from "../health/verdict-text.ts";
import type { RedFinding, RedRow } from "../schemas/traffic.ts";

const findingsMax = 10;
const severities: RedFinding["severity"][] = ["critical", "warning", "info"];

export interface RedFindingsFilter {
  role?: "server" | "client" | undefined;
  protocol?: string | undefined;
  /** Case-insensitive substring of method and route. */
  route?: string | undefined;
}

/** Subject of a row besides its service: `GET /users/{id}`, `to db`, `status 500`. */
export function redSubject(row: Pick<RedRow, "method" | "route" | "peer" | "status" | "role">): string {
  if (row.route !== null) return routeText(row.method ?? "", row.route);
  if (row.peer !== null) return `${row.role === "client" ? "to" : "from"} ${row.peer}`;
  return row.status === null ? "" : `status ${row.status === "" ? "none" : row.status}`;
}

/** Findings about the services in these rows; worst first, then by requests. */
export function redFindings(
  rows: readonly RedRow[],
  judged: ReadonlyMap<string, readonly JudgedRoute[]>,
  filter: RedFindingsFilter,
): RedFinding[] {
  const shown = new Set(rows.map(({ service, role }) => JSON.stringify([service, role])));
  const wanted = filter.route?.toLowerCase();
  const found = [...judged].flatMap(([service, routes]) =>
    routes
      .filter(({ fact }) => shown.has(JSON.stringify([service, fact.role])))
      .filter(({ fact }) => filter.role === undefined || fact.role === filter.role)
      .filter(({ fact }) => filter.protocol === undefined || fact.protocol === filter.protocol)
      .filter(({ fact }) => wanted === undefined || `${fact.method} ${fact.route}`.toLowerCase().includes(wanted))
      .flatMap((route) => findingsOf(service, route).map((finding) => ({ finding, requests: route.fact.requests }))),
  );
  return found
    .sort(
      (a, b) =>
        severities.indexOf(a.finding.severity) - severities.indexOf(b.finding.severity) ||
        b.finding.value / b.finding.threshold - a.finding.value / a.finding.threshold ||
        b.requests - a.requests,
    )
    .slice(0, findingsMax)
    .map(({ finding }) => finding);
}

function findingsOf(service: string, route: JudgedRoute): RedFinding[] {
  const { errors, slow, queueing, fact } = route;
  const calls = fact.role === "client" ? "calls " : "";
  const of = (
    rule: RedFinding["rule"],
    severity: RedFinding["severity"],
    message: string,
    value: number,
    threshold: number,
    unit: RedFinding["unit"],
  ): RedFinding => ({
    rule,
    severity,
    service,
    subject: routeName(route),
    message: `${service} ${calls}${message}`,
    value: Number(value.toPrecision(4)),
    threshold,
    unit,
  });
  const { warning, critical } = thresholds.latency;
  return [
    ...(errors === null ? [] : [of("error-share", errors.severity, errorMessage(route), errors.ratio, errors.threshold, "ratio")]),
    ...(slow === null || slow.severity === "info"
      ? []
      : [
          of(
            "slower-than-before",
            slow.severity,
            slowMessage(route),
            slow.times,
            slow.severity === "critical" ? critical : warning,
            "times",
          ),
        ]),
    ...(queueing === null ? [] : [of("queueing", "warning", queueMessage(route), queueing.part, thresholds.queue.part, "ratio")]),
  ];
}
