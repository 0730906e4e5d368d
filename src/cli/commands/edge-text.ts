/** One connection between two ends, in words: whom, how often, by which protocol, how sure. */

import { formatBytes } from "../../base/units.ts";
import type { TopologyEdge, TopologyNode } from "../../tools/index.ts";
import { protocolName } from "../output/known-ports.ts";
import { addressWithPort, grouped, rate } from "../output/values.ts";

/** From here on a class is sure enough to need no remark. */
const sureConfidence = 0.9;

/** `api (10.0.0.5)`, `s3.amazonaws.com (52.94.236.248:443)`, `203.0.113.42`. Not escaped. */
export function nodeText(node: TopologyNode, port: number | null = null): string {
  const address = mainAddress(node.addresses);
  if (node.kind === "host") return `${node.name} (host)`;
  if (address === undefined) return port === null ? node.name : `${node.name}:${port}`;
  if (node.name === address) return addressWithPort(address, port);
  const more = node.addresses.length - 1;
  return `${node.name} (${addressWithPort(address, port)}${more > 0 ? ` +${more}` : ""})`;
}

/** `45 conn/min, 3 open, HTTP, confidence 0.7`; with `wide` also bytes, round trip and evidence. */
export function edgeText(edge: TopologyEdge, wide: boolean): string {
  const parts = [
    ...(edge.connectionsPerMinute > 0 ? [`${rate(edge.connectionsPerMinute)} conn/min`] : []),
    ...(edge.openConnections > 0 ? [`${grouped(edge.openConnections)} open`] : []),
  ];
  if (parts.length === 0) parts.push(`${grouped(edge.connections)} seen`);
  parts.push(protocolName(edge.protocol, edge.port));
  if (edge.confidence < sureConfidence) parts.push(`confidence ${edge.confidence}`);
  if (!wide) return parts.join(", ");
  if (edge.bytesPerMinute > 0) parts.push(`${formatBytes(edge.bytesPerMinute)}/min`);
  if (edge.rttUs !== null) parts.push(`rtt ${(edge.rttUs / 1_000).toFixed(edge.rttUs < 10_000 ? 1 : 0)} ms`);
  if (edge.retransmits !== null && edge.retransmits > 0) parts.push(`${grouped(edge.retransmits)} retransmits`);
  return [...parts, ...edge.evidence].join(", ");
}

export function isSure(edge: TopologyEdge): boolean {
  return edge.confidence >= sureConfidence;
}

/** Loopback says nothing to a reader on another host. */
function mainAddress(addresses: readonly string[]): string | undefined {
  return addresses.find((address) => !address.startsWith("127.") && address !== "::1") ?? addresses[0];
}
