import { escapeText } from "../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../base/units.ts";
import type { ColonyStatus } from "../../tools/index.ts";
import type { Printer } from "../output/printer.ts";
import { renderTable, type Table, tableOf, valueColumn } from "../output/table.ts";
import { number, plural, relative } from "../output/values.ts";
import { connectColony } from "../run/connection.ts";
import type { Invocation } from "../run/invocation.ts";
import { showAnswer } from "../run/show-answer.ts";
import { openIncidentsLine } from "./incident/open-incidents-line.ts";
import { healthCell, usageCell } from "./service/health-style.ts";

type HostLine = ColonyStatus["hosts"][number];

/** `coral status`: what needs attention, agents, store and hosts on one screen. */
export async function run(invocation: Invocation): Promise<void> {
  const colony = await connectColony(invocation);
  let firstHost: string | undefined;
  const ask = async (): Promise<ColonyStatus> => {
    const answer = await colony.call("coral_get_status", {});
    // Keep the host of the first answer: with --watch the hint must not change while it is read.
    firstHost ??= answer.hosts.find((host) => host.sampledAt !== null)?.hostname;
    return answer;
  };
  await showAnswer(invocation, ask, {
    table: (answer) => hostTable(answer.hosts, Date.now()),
    page: (answer, wide) => statusPage(answer, invocation.print, wide, Date.now()),
    // The page prints warnings with their fix; drop them from the notes.
    pageShows: (answer, note) => answer.warnings.some((warning) => warning.kind === note.kind),
  });
  if (invocation.format === "table" && invocation.print.isTerminal) {
    const host = firstHost === undefined ? "coral query host" : `coral query host ${escapeText(firstHost)}`;
    invocation.print.note(`\nnext: ${host} · coral services · coral events --since 1h`);
  }
}

/** Also printed by `coral up` for the first overview. */
export function statusPage(status: ColonyStatus, print: Printer, wide: boolean, nowMs: number): string {
  const { colony, agents, services, store } = status;
  const { style } = print;
  const uptime = formatDurationMs(colony.uptimeMs);
  const lines = [
    `${style("bold", escapeText(colony.name))}  ${escapeText(colony.colonyId)} · ${escapeText(colony.environment)} · coral ${escapeText(colony.version)} · up ${uptime}`,
    ...openIncidentsLine(status.incidents, print, nowMs),
    ...attentionLines(status, print),
    "",
    `  agents    ${agentCounts(status, print)}`,
    `  services  ${services.total}`,
    `  store     ${formatBytes(store.usedBytes)}${store.limitBytes === null ? "" : ` of ${formatBytes(store.limitBytes)}`}`,
    // The unix socket is not useful to people.
    ...(wide ? colony.endpoints : colony.endpoints.filter((endpoint) => !endpoint.startsWith("unix:"))).map(
      (endpoint) => `  endpoint  ${escapeText(endpoint)}`,
    ),
  ];
  if (status.hosts.length > 0) {
    lines.push("", renderTable(hostTable(status.hosts, nowMs), { wide, width: print.width, style, indent: "  " }).trimEnd());
    const rest = agents.total - status.hosts.length;
    if (rest > 0) lines.push(style("dim", print.commands(`  … and ${plural(rest, "more host")}; "coral agent list" has them all`)));
  }
  if (status.warnings.length > 0) {
    lines.push("", style("bold", plural(status.warnings.length, "warning")));
    for (const warning of status.warnings) {
      lines.push(
        `  ${style("yellow", "!")} ${escapeText(warning.message)}`,
        `    ${style("cyan", "fix:")} ${print.commands(escapeText(warning.fix))}`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

/** Worst first; the hint names the details of the first service. */
function attentionLines({ attention }: ColonyStatus, { style, commands }: Printer): string[] {
  if (attention.length === 0) return [];
  const [first] = attention;
  const next = first?.kind === "service" ? [commands(`  "coral query summary ${escapeText(first.subject)}" has the details`)] : [];
  return [
    "",
    style("bold", "needs attention"),
    ...attention.map(({ kind, subject, severity, reason }) => {
      const name = kind === "host" ? `host ${subject}` : subject;
      return `  ${style(severity === "critical" ? "red" : "yellow", severity)}  ${escapeText(name)}: ${escapeText(reason)}`;
    }),
    ...next.map((line) => style("dim", line)),
  ];
}

/** Only non-zero counts, coloured by severity. */
function agentCounts({ agents }: ColonyStatus, { style }: Printer): string {
  if (agents.total === 0) return "none";
  const parts = [
    agents.healthy > 0 ? style("green", `${agents.healthy} healthy`) : "",
    agents.degraded > 0 ? style("yellow", `${agents.degraded} degraded`) : "",
    agents.unhealthy > 0 ? style("red", `${agents.unhealthy} unhealthy`) : "",
    // Health changes only after some silence, so a healthy agent may already be disconnected.
    agents.connected < agents.total ? style("yellow", `${agents.total - agents.connected} not connected`) : "",
  ];
  const slow = agents.slow === undefined ? "" : style("yellow", ` (${agents.slow} slow)`);
  return `${parts.filter((part) => part !== "").join(", ")}${slow}`;
}

/** Load has no colour: what is high depends on the number of cores, which is shown in the same row. */
function hostTable(hosts: readonly HostLine[], nowMs: number): Table {
  // Containers and cloned machines may share a host name; show ids then.
  const areNamesUnique = new Set(hosts.map((host) => host.hostname)).size === hosts.length;
  return tableOf(hosts, [
    { title: "HOST", key: "hostname", cell: (host) => host.hostname },
    { title: "AGENT", key: "agentId", cell: (host) => host.agentId, wide: areNamesUnique },
    { title: "HEALTH", key: "health", cell: (host) => healthCell(host.health, host.isSlow), raw: (host) => host.health },
    valueColumn("CPU", "cpuBusyRatio", (host) => host.cpuBusyRatio, usageCell, { align: "right" }),
    { title: "CORES", key: "cpuCount", cell: (host) => host.cpuCount, align: "right" },
    valueColumn("MEM", "memUsedRatio", (host) => host.memUsedRatio, usageCell, { align: "right" }),
    {
      title: "OF",
      key: "memTotalBytes",
      cell: (host) => (host.memTotalBytes === null ? null : formatBytes(host.memTotalBytes)),
      raw: (host) => host.memTotalBytes,
      align: "right",
    },
    valueColumn("LOAD", "load1m", (host) => host.load1m, number, { align: "right" }),
    { title: "SAMPLED", key: "sampledAt", cell: (host) => relative(host.sampledAt, nowMs), raw: (host) => host.sampledAt },
  ]);
}
