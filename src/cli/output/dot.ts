/** Writes graphs in GraphViz DOT. Every string is quoted and escaped, so that a name cannot add nodes or attributes. */

import { escapeText } from "../../base/escape-text.ts";

export type DotAttributes = Readonly<Record<string, string | number | undefined>>;

/** `id` is unique in the graph; the displayed text is the attribute `label`. */
export interface DotNode {
  id: string;
  attributes: DotAttributes;
}

export interface DotGraph {
  name: string;
  nodes: readonly DotNode[];
  edges: readonly { from: string; to: string; attributes: DotAttributes }[];
  /** Nodes grouped in a box. */
  clusters?: readonly { label: string; nodes: readonly DotNode[] }[];
}

/** `rankdir=LR` draws callers left of callees. */
export function renderDot({ name, nodes, edges, clusters = [] }: DotGraph): string {
  const lines = [`digraph ${quote(name)} {`, '  rankdir="LR";', '  node [shape="box", style="rounded"];'];
  for (const [index, cluster] of clusters.entries()) {
    lines.push(`  subgraph "cluster_${index}" {`, `    label=${quote(cluster.label)};`);
    for (const node of cluster.nodes) lines.push(`    ${quote(node.id)}${attributeList(node.attributes)};`);
    lines.push("  }");
  }
  for (const node of nodes) lines.push(`  ${quote(node.id)}${attributeList(node.attributes)};`);
  for (const { from, to, attributes } of edges) lines.push(`  ${quote(from)} -> ${quote(to)}${attributeList(attributes)};`);
  return `${lines.join("\n")}\n}\n`;
}

function attributeList(attributes: DotAttributes): string {
  const parts = Object.entries(attributes).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${quote(String(value))}`]));
  return parts.length === 0 ? "" : ` [${parts.join(", ")}]`;
}

/** Keeps line feeds, which DOT writes as \n; escapes other control characters like escapeText(). */
function quote(text: string): string {
  const lines = text.split("\n").map((line) => escapeText(line).replaceAll("\\", "\\\\").replaceAll('"', '\\"'));
  return `"${lines.join("\\n")}"`;
}
