/** Pages of `coral query summary`: all services, worst first, or one in full with findings, onset, hosts and events. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { ServiceSummary, SummaryDetails, SummaryPeer, SummaryRequests, SummaryResult, SummaryRoute } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { sparkline } from "../../output/sparkline.ts";
import type { StyleName } from "../../output/style.ts";
import { type Column, renderTable, tableOf } from "../../output/table.ts";
import { latency, localTime, number, percent, plural, rate, relative } from "../../output/values.ts";
import { openIncidentsLine } from "../incident/open-incidents-line.ts";
import { errorCell, latencyColumn, rateColumn } from "./red-text.ts";
import { findingStyles, healthStyle, slowCell, summaryColumns } from "./summary-text.ts";

export interface SummaryPageOptions {
  wide: boolean;
  isOne: boolean;
  nowMs: number;
}

export function summaryPage(answer: SummaryResult, print: Printer, options: SummaryPageOptions): string {
  if (answer.services.length === 0) return "";
  const [one] = answer.services;
  if (options.isOne && one) return servicePage(one, answer, print, options);
  const { style } = print;
  const { totals } = answer;
  const counts = (["critical", "degraded", "unknown", "ok"] as const).flatMap((health) =>
    totals[health] === 0 ? [] : [style(healthStyle(health), `${totals[health]} ${health}`)],
  );
  const head = `${style("bold", plural(totals.services, "service"))}  last ${formatDurationMs(answer.sinceMs)}${observedText(answer)} · ${counts.join(" · ")}`;
  const columns = summaryColumns.filter(({ key }) => options.wide || isShown(answer, key));
  const table = renderTable(tableOf(answer.services, columns), {
    wide: options.wide,
    width: options.wide ? undefined : print.width,
    style,
  });
  return `${[head, ...openIncidentsLine(answer.incidents, print, options.nowMs)].join("\n")}\n${table}`;
}

/** Omits baseline columns that are empty for every service. */
function isShown({ services }: SummaryResult, key: string): boolean {
  if (key === "before.p95Us") return services.some(({ requests }) => requests?.before !== null && requests !== null);
  if (key === "yesterday.p95Us") return services.some(({ requests }) => requests?.yesterday !== null && requests !== null);
  return true;
}

/**
 * Mentions the observed time when it is clearly shorter than the requested one, because rates cover only the observed time. A few
 * seconds are always missing, since the newest window is still open; hence the tolerance.
 */
function observedText({ sinceMs, windowMs }: SummaryResult): string {
  return windowMs < sinceMs * 0.8 ? `, observed for ${formatDurationMs(Math.round(windowMs / 1_000) * 1_000)}` : "";
}

/** Sections without rows are omitted, so the length of the page depends on what happened. */
function servicePage(summary: ServiceSummary, answer: SummaryResult, print: Printer, options: SummaryPageOptions): string {
  const { style } = print;
  const { details, requests } = summary;
  const places =
    summary.instances === 0
      ? requests?.source === "spans"
        ? "known only from spans"
        : "no process is known"
      : `${plural(summary.instances, "process", "processes")} on ${plural(summary.hosts, "host")}`;
  const lines = [
    `${style("bold", escapeText(summary.service))}  ${style(healthStyle(summary.health), summary.health)} · last ${formatDurationMs(answer.sinceMs)}${observedText(answer)} · ${places}`,
    ...openIncidentsLine(answer.incidents, print, options.nowMs),
    ...findingLines(summary, print, options),
    ...(requests === null
      ? ["", print.commands("  no requests observed; run coral doctor to see what this host supports")]
      : requestLines(requests, details, print)),
  ];
  if (details) {
    lines.push(...section("Routes", routeTable(details.routes), print, options));
    lines.push(...section("Called by", peerTable(details.callers), print, options));
    lines.push(...section("Calls", peerTable(details.callees), print, options));
    lines.push(...loadLines(details, print));
    lines.push(...section("Hot functions", functionTable(details), print, options));
    lines.push(...section("New log patterns", patternTable(details, options.nowMs), print, options));
    lines.push(...section("Events", eventTable(details, options.nowMs), print, options));
    lines.push(...nextLines(summary, print));
  }
  return `${lines.join("\n")}\n`;
}

/** Findings worst first, then the onset, and whether it coincides with the newest deployment. */
function findingLines({ findings, details, deployment }: ServiceSummary, { style }: Printer, { nowMs }: SummaryPageOptions): string[] {
  const lines = findings.map(({ severity, message }) => `  ${style(findingStyles[severity], `${severity}:`)} ${escapeText(message)}`);
  if (details?.onsetAt) {
    const at = Date.parse(details.onsetAt);
    const afterMs = deployment === null ? Number.NaN : at - Date.parse(deployment.at);
    // The onset is a whole minute, so a deployment may appear slightly after its effect.
    const near = afterMs > -120_000 && afterMs < 600_000 ? ", just when it was deployed" : "";
    lines.push(`  ${style("cyan", "since:")} ${localTime(details.onsetAt, nowMs)}, ${relative(details.onsetAt, nowMs)}${near}`);
  }
  return lines;
}

/** Current requests beside the baselines. Baselines store only p95, so their p50 and p99 are dashes. */
function requestLines(requests: SummaryRequests, details: SummaryDetails | undefined, print: Printer): string[] {
  const { style } = print;
  const rows = [
    { when: requests.role === "server" ? "served now" : "sent now", ...requests },
    ...(requests.before === null ? [] : [{ when: "the hour before", ...requests.before, p50Us: null, p99Us: null }]),
    ...(requests.yesterday === null ? [] : [{ when: "yesterday, this time", ...requests.yesterday, p50Us: null, p99Us: null }]),
  ];
  const table = renderTable(
    tableOf(rows, [
      { title: requests.source === "spans" ? "FROM SPANS" : "REQUESTS", key: "when", cell: (row) => row.when },
      rateColumn((row) => row.perSecond),
      { title: "FAILED", key: "errorRatio", align: "right", cell: (row) => errorCell(row.errorRatio) },
      latencyColumn("P50", "p50Us", (row) => row.p50Us),
      latencyColumn("P95", "p95Us", (row) => row.p95Us),
      latencyColumn("P99", "p99Us", (row) => row.p99Us),
    ]),
    { style, indent: "  " },
  ).trimEnd();
  return ["", table, ...(details ? trendLines(details, print) : [])];
}

/** Trend of the last hour, as far as it fits the terminal. */
function trendLines({ course }: SummaryDetails, { style, width }: Printer): string[] {
  if (!course.perSecond.some((value) => value > 0)) return [];
  // Skip minutes before the first request.
  const first = course.perSecond.findIndex((value) => value > 0);
  const room = Math.min(course.perSecond.length - first, Math.max(20, (width ?? 110) - 40));
  const line = (label: string, values: readonly (number | null)[], most: string): string =>
    `  ${label.padEnd(9)}${sparkline(values.slice(-room), 0)}  ${style("dim", `max ${most}`)}`;
  const highest = (values: readonly (number | null)[]): number => Math.max(0, ...values.slice(-room).map((value) => value ?? 0));
  const lines = [
    `  ${style("dim", `the last ${formatDurationMs(room * course.stepMs)}, ${course.stepMs === 60_000 ? "per minute" : `in steps of ${formatDurationMs(course.stepMs)}`}`)}`,
    line("rate", course.perSecond, `${rate(highest(course.perSecond))}/s`),
    line("p95", course.p95Us, latency(highest(course.p95Us)) ?? ""),
  ];
  if (course.errorRatio.slice(-room).some((value) => value > 0))
    lines.push(line("failed", course.errorRatio, percent(highest(course.errorRatio)) ?? ""));
  return lines;
}

function section(title: string, table: ReturnType<typeof tableOf>, { style, width }: Printer, { wide }: SummaryPageOptions): string[] {
  if (table.cells.length === 0) return [];
  return ["", style("bold", title), renderTable(table, { style, indent: "  ", width: wide ? undefined : width }).trimEnd()];
}

interface Part {
  requests: number;
  perSecond: number;
  errorRatio: number;
  p95Us: number | null;
  before: SummaryRoute["before"];
}

/** Columns shared by routes and peers, so that both can be compared at a glance. */
function partColumns<T extends Part>(): Column<T>[] {
  return [
    rateColumn<T>((row) => row.perSecond),
    { title: "FAILED", key: "errorRatio", align: "right", cell: (row) => (row.requests === 0 ? null : errorCell(row.errorRatio)) },
    latencyColumn<T>("P95", "p95Us", (row) => row.p95Us),
    latencyColumn<T>("BEFORE", "before", (row) => row.before?.p95Us ?? null),
    { title: "CHANGE", key: "change", align: "right", cell: (row) => slowCell(row.p95Us, row.before) },
  ];
}

function routeTable(routes: readonly SummaryRoute[]) {
  return tableOf(routes, [{ title: "ROUTE", key: "route", cell: (row) => row.route }, ...partColumns<SummaryRoute>()]);
}

function peerTable(peers: readonly SummaryPeer[]) {
  return tableOf(peers, [
    { title: "NAME", key: "peer", align: "left", cell: (row) => row.peer },
    ...partColumns<SummaryPeer>(),
    {
      title: "",
      key: "what",
      cell: ({ change }) => (change === "failing" || change === "slower" ? { text: change, style: "yellow" } : change),
    },
  ]);
}

/** Load of the service's processes, its hosts and its control groups. Pressure below 1 % is omitted as noise. */
function loadLines({ hosts, load }: SummaryDetails, { style }: Printer): string[] {
  if (hosts.length === 0 && load === null) return [];
  const lines = ["", style("bold", "Where it runs")];
  if (load !== null) {
    const before =
      load.before === null ? "" : ` (${number(load.before.cpuCores)} and ${formatBytes(load.before.rssBytes)} in the hour before)`;
    lines.push(`  its processes: ${number(load.cpuCores)} cores, ${formatBytes(load.rssBytes)}${before}`);
  }
  for (const host of hosts) {
    const waits = (["psiCpuRatio", "psiMemoryRatio", "psiIoRatio"] as const).flatMap((name, index) =>
      (host[name] ?? 0) >= 0.01 ? [`${["cpu", "memory", "io"][index]} ${percent(host[name])}`] : [],
    );
    const pressure = waits.length === 0 ? "" : ` · waits for ${waits.join(", ")}`;
    lines.push(`  host ${escapeText(host.hostname)}: cpu ${percent(host.cpuBusyRatio)} · memory ${percent(host.memUsedRatio)}${pressure}`);
    for (const group of host.cgroups) {
      const limit = group.cpuLimitCores === null ? "" : ` of ${number(group.cpuLimitCores)}`;
      const throttled = (group.throttledRatio ?? 0) > 0 ? ` · throttled ${percent(group.throttledRatio)}` : "";
      const memLimit = group.memLimitBytes === null ? "" : ` of ${formatBytes(group.memLimitBytes)}`;
      lines.push(
        style(
          "dim",
          `    ${escapeText(group.cgroup)}: ${number(group.cpuCores) ?? "?"}${limit} cores${throttled} · ${formatBytes(group.memUsedBytes ?? 0)}${memLimit}`,
        ),
      );
    }
  }
  return lines;
}

/** Red when its share of CPU time grew significantly since the hour before. */
function functionTable({ hotFunctions }: SummaryDetails) {
  return tableOf(hotFunctions, [
    { title: "SELF", key: "self", align: "right", cell: ({ self }) => percent(self) },
    {
      title: "TOTAL",
      key: "total",
      align: "right",
      cell: ({ total, grew }) => (grew ? { text: percent(total), style: "red" } : percent(total)),
    },
    { title: "BEFORE", key: "totalBefore", align: "right", cell: ({ totalBefore }) => percent(totalBefore) },
    { title: "FUNCTION", key: "name", cell: ({ name }) => name },
    { title: "FILE", key: "file", cell: ({ file }) => (file === "" ? "kernel" : file) },
  ]);
}

function patternTable({ newPatterns }: SummaryDetails, nowMs: number) {
  return tableOf(newPatterns, [
    { title: "FIRST", key: "firstAt", cell: ({ firstAt }) => (firstAt === null ? null : localTime(firstAt, nowMs)) },
    {
      title: "SEVERITY",
      key: "severity",
      cell: ({ severity }) => (severity === "error" || severity === "fatal" ? { text: severity, style: "red" } : severity),
    },
    { title: "RECORDS", key: "records", cell: ({ records }) => records },
    { title: "PATTERN", key: "template", cell: ({ template }) => template },
  ]);
}

function eventTable({ events }: SummaryDetails, nowMs: number) {
  return tableOf(events, [
    { title: "TIME", key: "at", cell: ({ at }) => localTime(at, nowMs) },
    { title: "KIND", key: "kind", cell: ({ kind, severity }) => ({ text: kind, style: styleOf(severity) }) },
    { title: "WHAT", key: "message", cell: ({ message }) => message },
  ]);
}

/** Info events are dim: only warnings and errors should catch the eye. */
function styleOf(severity: string): StyleName {
  return severity === "error" ? "red" : severity === "warning" ? "yellow" : "dim";
}

/**
 * Suggests at most three next commands, by rule. For errors it suggests a capture, which shows single failed requests; a service
 * known only from spans cannot be captured, so it gets a trace search instead.
 */
function nextLines({ service, findings, requests }: ServiceSummary, print: Printer): string[] {
  const has = (...rules: string[]): boolean => findings.some(({ rule, severity }) => rules.includes(rule) && severity !== "info");
  const subjectOf = (...rules: string[]): string | undefined => findings.find(({ rule }) => rules.includes(rule))?.subject;
  const callee = subjectOf("callee-failing", "callee-slower");
  const isTraced = requests?.source === "spans";
  const next = [
    ...(has("deployment-regression") ? [`coral query deployments ${service}`] : []),
    ...(callee === undefined ? [] : [`coral query summary ${callee}`]),
    ...(has("errors", "errors-rising")
      ? [isTraced ? `coral query traces ${service} --error` : `coral capture ${service} --status error`]
      : []),
    ...(has("latency") && isTraced ? [`coral query traces ${service} --sort slowest`] : []),
    ...(has("new-errors", "error-records") ? [`coral query logs ${service} --level error`] : []),
  ];
  if (next.length === 0) return [];
  return ["", print.style("dim", print.commands(`next: ${next.slice(0, 3).map(escapeText).join(" · ")}`))];
}
