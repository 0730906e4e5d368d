/** The page of one service: identity, instances, callers, callees, events. */

import { escapeText } from "../../../base/escape-text.ts";
import type { ColonyEvent } from "../../../model/events.ts";
import type { ServiceProcess } from "../../../model/services.ts";
import type { Service, TopologyEdge, TopologyNode } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { type Column, renderTable, tableOf } from "../../output/table.ts";
import { padText, textWidth, truncateText } from "../../output/text-width.ts";
import { localTime, plural, relative, shortList } from "../../output/values.ts";
import { type DrawnEdge, edgeText, isSure, joinPorts, nodeText } from "../network/edge-text.ts";
import { severityCell } from "../query/severity-cell.ts";
import { checkCell, checkStyle, shortBuild } from "./service-cells.ts";

/** Output of `coral services <name> -o json`. */
export interface ServiceReport {
  service: Service;
  calledBy: TopologyEdge[];
  calls: TopologyEdge[];
  /** Nodes of those calls. */
  nodes: TopologyNode[];
  /** Newest first. */
  events: ColonyEvent[];
}

export interface ServicePageOptions {
  wide: boolean;
  /** --since as written. */
  since: string;
  nowMs: number;
}

/** Limits of the short form; -o wide shows everything. */
const callsShown = 20;
const portsShown = 10;
const aliasesShown = 5;
const instancesShown = 20;

export function servicePage(report: ServiceReport, print: Printer, options: ServicePageOptions): string {
  const { service, calledBy, calls, events } = report;
  const { style } = print;
  const nodes = new Map(report.nodes.map((node) => [node.id, node]));
  const lines = [...headLines(service, print, options), ""];
  const instances = processLines(service);
  const table = tableOf(options.wide ? instances : instances.slice(0, instancesShown), processColumns(options.nowMs));
  lines.push(style("bold", "Instances"));
  lines.push(
    renderTable(table, { wide: options.wide, width: options.wide ? undefined : print.width, style, indent: "  " }).trimEnd() ||
      "  none known",
  );
  const hidden = instances.length - table.cells.length;
  if (hidden > 0) lines.push(style("dim", `  … and ${plural(hidden, "more instance")}; -o wide shows them all`));
  const callers = callLines(calledBy, "from", nodes, print, options.wide);
  const called = callLines(calls, "to", nodes, print, options.wide);
  lines.push("", style("bold", "Called by"), ...(callers.length > 0 ? callers : [`  none in the last ${options.since}`]));
  lines.push("", style("bold", "Calls"), ...(called.length > 0 ? called : [`  none in the last ${options.since}`]));
  if (events.length > 0) {
    lines.push("", style("bold", "Recent events"));
    lines.push(renderTable(eventTable(events, options.nowMs), { width: print.width, style, indent: "  ", header: false }).trimEnd());
  }
  return `${lines.join("\n")}\n`;
}

/** Facts by label: ports, origin of the name, identity, aliases, discovery, external traffic. */
function headLines(service: Service, { style }: Printer, { nowMs, wide }: ServicePageOptions): string[] {
  const check = service.check === null ? "" : ` · ${style(checkStyle(service.check), service.check)}`;
  const where = `${plural(service.instances, "instance")} on ${plural(service.agents.length, "host")}`;
  const before = service.previousMethod === null ? "" : `, before that ${escapeText(service.previousMethod)}`;
  const all = service.ports.map(({ port, protocol }) => `${escapeText(protocol)} ${port}`);
  const ports = shortList(all, wide ? all.length : portsShown, ", ");
  const facing = [service.ingress ? "external callers" : "", service.egress ? "external callees" : ""].filter((part) => part !== "");
  const facts: [string, string][] = [
    ["ports", ports === "" ? "none; it only opens connections" : ports],
    ["name", `by ${escapeText(service.namedBy)}, confidence ${service.confidence}`],
    ...(service.origin === null ? [] : [["origin", escapeText(service.origin)] satisfies [string, string]]),
    ...(service.aliases.length === 0
      ? []
      : [
          ["also", shortList(service.aliases.map(escapeText), wide ? service.aliases.length : aliasesShown, ", ")] satisfies [
            string,
            string,
          ],
        ]),
    ["found", `${escapeText(service.method)}${before}`],
    ["seen", `first ${relative(service.firstSeenAt, nowMs)}, last ${relative(service.lastSeenAt, nowMs)}`],
    ["outside", facing.length === 0 ? "none seen" : facing.join(", ")],
  ];
  return [
    `${style("bold", escapeText(service.service))}  ${service.status}${check} · ${where}`,
    ...facts.map(([name, text]) => `  ${style("dim", name.padEnd(9))} ${text}`),
  ];
}

interface ProcessLine {
  agent: Service["agents"][number];
  /** Undefined when the agent lacks permission to read the processes. */
  process: ServiceProcess | undefined;
}

/** One line per process, or one per host whose processes are not readable. */
export function processLines(service: Service): ProcessLine[] {
  return service.agents.flatMap((agent) => {
    const processes = agent.processes ?? [];
    return (processes.length === 0 ? [undefined] : processes).map((process): ProcessLine => ({ agent, process }));
  });
}

export function processColumns(nowMs: number): readonly Column<ProcessLine>[] {
  return [
    { title: "HOST", key: "hostname", cell: ({ agent }) => agent.hostname },
    { title: "PID", key: "pid", cell: ({ process }) => process?.pid, align: "right" },
    {
      title: "STARTED",
      key: "startedAt",
      cell: ({ process }) => relative(process?.startedAt, nowMs),
      raw: ({ process }) => process?.startedAt,
    },
    { title: "USER", key: "user", cell: ({ process }) => process?.user, align: "left" },
    {
      title: "HEALTH",
      key: "health",
      cell: ({ process, agent }) => checkCell(process?.health ?? agent.check),
      raw: ({ process, agent }) => process?.health ?? agent.check,
    },
    { title: "LISTENS", key: "listens", cell: ({ process, agent }) => (process?.listens ?? agent.addresses).join(" ") },
    {
      title: "BUILD",
      key: "build",
      cell: ({ process, agent }) => shortBuild(process?.build ?? agent.build),
      raw: ({ process, agent }) => process?.build ?? agent.build,
      align: "left",
    },
    { title: "BINARY", key: "exe", cell: ({ process, agent }) => process?.exe ?? agent.exe },
    { title: "UNIT", key: "unit", cell: ({ process }) => process?.unit },
    { title: "CONTAINER", key: "container", cell: ({ process }) => process?.containerName ?? process?.containerId?.slice(0, 12) },
    { title: "HEALTH DETAIL", key: "healthDetail", cell: ({ process }) => process?.healthDetail, wide: true },
    { title: "BUILD KIND", key: "buildKind", cell: ({ process }) => process?.buildKind, wide: true },
    { title: "CONTAINER ID", key: "containerId", cell: ({ process }) => process?.containerId, wide: true, align: "left" },
    { title: "COMMAND LINE", key: "commandLine", cell: ({ process }) => process?.commandLine, wide: true },
  ];
}

/** Calls in one direction, busiest first. Names are padded to at most 46 cells, so that one long name does not push all brackets out. */
function callLines(
  edges: readonly TopologyEdge[],
  end: "from" | "to",
  nodes: ReadonlyMap<string, TopologyNode>,
  { style, width }: Printer,
  wide: boolean,
): string[] {
  const sorted: DrawnEdge[] = (wide ? [...edges] : joinPorts(edges)).sort(
    (a, b) => b.connections - a.connections || a[end].localeCompare(b[end]),
  );
  const shown = wide ? sorted : sorted.slice(0, callsShown);
  const arrow = end === "from" ? "←" : "→";
  const parts = shown.map((edge) => {
    const node = nodes.get(edge[end]);
    const port = edge.class === "EGRESS" && edge.ports === undefined ? edge.port : null;
    return { edge, name: escapeText(node === undefined ? edge[end] : nodeText(node, port)) };
  });
  const widest = Math.min(46, Math.max(0, ...parts.map(({ name }) => textWidth(name))));
  const lines = parts.map(({ edge, name }) => {
    const rest = `[${edge.class}, ${escapeText(edgeText(edge, wide))}]`;
    const room = width === undefined ? undefined : Math.max(12, width - textWidth(rest) - 5);
    const cut = room === undefined ? name : truncateText(name, room);
    return `  ${arrow} ${padText(cut, Math.min(widest, room ?? widest), "left")} ${style(isSure(edge) ? "dim" : "yellow", rest)}`;
  });
  const more = sorted.length - shown.length;
  return more > 0 ? [...lines, style("dim", `  … and ${more} more; -o wide shows them all`)] : lines;
}

function eventTable(events: readonly ColonyEvent[], nowMs: number) {
  return tableOf(events, [
    { title: "TIME", key: "at", cell: (event) => localTime(event.at, nowMs), align: "left" },
    { title: "SEVERITY", key: "severity", cell: severityCell },
    { title: "KIND", key: "kind", cell: (event) => event.kind },
    { title: "MESSAGE", key: "message", cell: (event) => event.message },
  ]);
}
