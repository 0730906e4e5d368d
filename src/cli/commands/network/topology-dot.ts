import type { Topology, TopologyEdge, TopologyNode } from "../../../tools/index.ts";
import { type DotAttributes, renderDot } from "../../output/dot.ts";
import { edgeText, isSure } from "./edge-text.ts";

const colours: Record<TopologyEdge["class"], string> = { INGRESS: "forestgreen", INTERNAL: "gray30", EGRESS: "darkorange3" };
/** Line width of the busiest edge. */
const maxPenWidth = 5;

/** `coral network topology -o dot`: services are boxes, external nodes ellipses; edges of low confidence are dashed. */
export function topologyDot({ nodes, edges }: Topology): string {
  const most = Math.max(1, ...edges.map((edge) => edge.connections));
  return renderDot({
    name: "topology",
    nodes: nodes.map((node) => ({ id: node.id, attributes: nodeAttributes(node) })),
    edges: edges.map((edge) => ({
      from: edge.from,
      to: edge.to,
      attributes: {
        label: edgeText(edge, false).replaceAll(", ", "\n"),
        color: colours[edge.class],
        // Logarithmic: the busiest edge may have a million times the connections of the idlest.
        penwidth: (1 + (maxPenWidth - 1) * (Math.log1p(edge.connections) / Math.log1p(most))).toFixed(1),
        style: isSure(edge) ? undefined : "dashed",
      },
    })),
  });
}

function nodeAttributes(node: TopologyNode): DotAttributes {
  const address = node.addresses[0];
  const label = address === undefined || address === node.name ? node.name : `${node.name}\n${address}`;
  switch (node.kind) {
    case "service":
      return { label };
    case "external":
      return { label, shape: "ellipse", style: "filled", fillcolor: "lightyellow" };
    case "host":
      return { label, style: "dashed" };
  }
}
