/** The topology as a tree: external callers, calls between services, external callees. */

import { escapeText } from "../../../base/escape-text.ts";
import type { Topology, TopologyEdge, TopologyNode } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { screenTitle } from "../../output/screen.ts";
import { padText, textWidth, truncateText } from "../../output/text-width.ts";
import { grouped, plural } from "../../output/values.ts";
import { type DrawnEdge, edgeText, isSure, joinPorts, nodeText } from "./edge-text.ts";

export interface TopologyPageOptions {
  wide: boolean;
  /** Nodes that --service selected. */
  selected: string | undefined;
}

/** Display order: the way of a request through the application. */
const classes: readonly TopologyEdge["class"][] = ["INGRESS", "INTERNAL", "EGRESS"];
/** Lines shown per section; the rest is counted. -o wide shows all. */
const maxCallers = 100;
const maxCalled = 20;
/** Names are padded to this width to align the next column. */
const maxPadding = 46;
/** Least width of a truncated name. */
const minName = 12;
/** Names per relation; -o wide lists all. */
const namesMax = 20;

/** Totals at the end cover the whole topology, including edges that are not drawn. */
export function topologyPage(topology: Topology, print: Printer, options: TopologyPageOptions): string {
  const nodes = new Map(topology.nodes.map((node) => [node.id, node]));
  const of = options.selected === undefined ? "" : ` of ${escapeText(options.selected)}`;
  const lines = [screenTitle(`SERVICE TOPOLOGY${of} (with external dependencies)`, print)];
  for (const name of classes) {
    const edges = topology.edges.filter((edge) => edge.class === name);
    if (edges.length > 0) lines.push(print.style("cyan", `[${name}]`), ...groupLines(edges, nodes, print, options.wide));
  }
  if (options.selected !== undefined) lines.push(...relationLines(topology, options.wide));
  const { totals } = topology;
  lines.push(
    `Internal Services: ${grouped(totals.services)}`,
    `External Ingress: ${plural(totals.ingressSources, "source")}`,
    `External Egress: ${plural(totals.egressDestinations, "destination")}`,
  );
  return `${lines.join("\n")}\n`;
}

/** The calls of one class, grouped by caller, busiest caller first. */
function groupLines(edges: readonly TopologyEdge[], nodes: ReadonlyMap<string, TopologyNode>, print: Printer, wide: boolean): string[] {
  const callers = new Map<string, TopologyEdge[]>();
  for (const edge of edges) {
    const list = callers.get(edge.from);
    if (list) list.push(edge);
    else callers.set(edge.from, [edge]);
  }
  const sorted = [...callers].sort(([a, left], [b, right]) => total(right) - total(left) || a.localeCompare(b));
  const shown = wide ? sorted : sorted.slice(0, maxCallers);
  const called = shown.map(([id, list]) => ({ id, ...calledLines(list, nodes, wide) }));
  const width = Math.min(maxPadding, Math.max(...called.flatMap(({ lines }) => lines.map((line) => textWidth(line.name)))));
  const lines = called.flatMap(({ id, hidden, lines: own }) => [
    `  ${print.style("bold", escapeText(nameOf(id, nodes)))}`,
    ...own.map((line) => drawLine(line, width, print)),
    ...(hidden > 0 ? [print.style("dim", `    … and ${plural(hidden, "more call")}; -o wide shows them all`)] : []),
    "",
  ]);
  const hiddenCallers = sorted.length - shown.length;
  if (hiddenCallers > 0)
    lines.push(print.style("dim", `  … and ${plural(hiddenCallers, "more caller")}; narrow with --service, or -o wide shows them all`), "");
  return lines;
}

interface CalledLine {
  name: string;
  rest: string;
  sure: boolean;
}

/** The callees of one caller, busiest first. */
function calledLines(
  edges: readonly TopologyEdge[],
  nodes: ReadonlyMap<string, TopologyNode>,
  wide: boolean,
): { lines: CalledLine[]; hidden: number } {
  const sorted: DrawnEdge[] = (wide ? [...edges] : joinPorts(edges)).sort(
    (a, b) => b.connections - a.connections || a.to.localeCompare(b.to) || a.port - b.port,
  );
  const shown = wide ? sorted : sorted.slice(0, maxCalled);
  const lines = shown.map((edge) => ({
    // The port of an external callee is part of its address; that of a service is implied by the protocol.
    name: escapeText(nameOf(edge.to, nodes, edge.class === "EGRESS" && edge.ports === undefined ? edge.port : null)),
    rest: `[${escapeText(edgeText(edge, wide))}]`,
    sure: isSure(edge),
  }));
  return { lines, hidden: sorted.length - shown.length };
}

/** Truncates the name rather than the figures; edges of low confidence are yellow. */
function drawLine({ name, rest, sure }: CalledLine, width: number, { style, width: terminal }: Printer): string {
  const head = "    → ";
  const room = terminal === undefined ? undefined : Math.max(minName, terminal - head.length - textWidth(rest) - 1);
  const cut = room === undefined ? name : truncateText(name, room);
  const padded = padText(cut, room === undefined ? width : Math.min(width, room), "left");
  return `${head}${padded} ${style(sure ? "dim" : "yellow", rest)}`;
}

/** Dependents and dependencies of the selected service, nearest first. */
function relationLines({ nodes }: Topology, wide: boolean): string[] {
  const names = (...relations: TopologyNode["relation"][]): string => {
    const found = nodes.filter((node) => relations.includes(node.relation)).sort((a, b) => (a.distance ?? 0) - (b.distance ?? 0));
    if (found.length === 0) return "none";
    const shown = (wide ? found : found.slice(0, namesMax)).map((node) => escapeText(node.name));
    return `${shown.join(", ")}${found.length > shown.length ? ` and ${found.length - shown.length} more` : ""}`;
  };
  const attempts = nodes.some(({ relation }) => relation === "attempt") ? [`Failed attempts only: ${names("attempt")}`] : [];
  return [`Dependents: ${names("dependent", "both")}`, `Dependencies: ${names("dependency", "both")}`, ...attempts, ""];
}

/** Falls back to the id for an edge whose node was truncated from the answer. */
function nameOf(id: string, nodes: ReadonlyMap<string, TopologyNode>, port: number | null = null): string {
  const node = nodes.get(id);
  return node === undefined ? id : nodeText(node, port);
}

function total(edges: readonly TopologyEdge[]): number {
  return edges.reduce((sum, edge) => sum + edge.connections, 0);
}
