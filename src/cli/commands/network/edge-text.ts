/** Describes one connection in a line: peer, rate, protocol, confidence. */

import { formatBytes } from "../../../base/units.ts";
import { protocolTitle } from "../../../model/protocols.ts";
import type { TopologyEdge, TopologyNode } from "../../../tools/index.ts";
import { protocolName } from "../../output/known-ports.ts";
import { addressWithPort, grouped, latency, percent, rate } from "../../output/values.ts";

/** From this confidence on, the classification is shown without a remark. */
const sureConfidence = 0.9;

/** A displayed edge: one port, or several merged ports. */
export type DrawnEdge = TopologyEdge & { ports?: number };

/** Pairs with edges on more ports than this get one merged edge. */
const portsApart = 3;

/** Merges the edges of a pair with many ports, to keep the tree readable. */
export function joinPorts(edges: readonly TopologyEdge[]): DrawnEdge[] {
  const pairs = new Map<string, TopologyEdge[]>();
  for (const edge of edges) {
    const key = `${edge.from}\n${edge.to}\n${edge.class}`;
    const list = pairs.get(key);
    if (list) list.push(edge);
    else pairs.set(key, [edge]);
  }
  return [...pairs.values()].flatMap((list) => (list.length <= portsApart ? list : [joined(list)]));
}

/** Confidence of a merged edge is that of its least certain port. */
function joined(list: readonly TopologyEdge[]): DrawnEdge {
  const sum = (value: (edge: TopologyEdge) => number): number => list.reduce((total, edge) => total + value(edge), 0);
  return {
    ...(list[0] as TopologyEdge),
    connections: sum((edge) => edge.connections),
    openConnections: sum((edge) => edge.openConnections),
    connectionsPerMinute: sum((edge) => edge.connectionsPerMinute),
    failures: sum((edge) => edge.failures),
    confidence: Math.min(...list.map((edge) => edge.confidence)),
    requests: joinedRequests(list),
    ports: list.length,
  };
}

/** Percentiles cannot be added: use those of the busiest port. */
function joinedRequests(list: readonly TopologyEdge[]): TopologyEdge["requests"] {
  const all = list.flatMap((edge) => edge.requests ?? []).sort((a, b) => b.count - a.count);
  const [main] = all;
  if (!main) return null;
  const count = all.reduce((sum, requests) => sum + requests.count, 0);
  const errors = all.reduce((sum, requests) => sum + requests.errorRatio * requests.count, 0);
  return {
    ...main,
    count,
    perSecond: all.reduce((sum, requests) => sum + requests.perSecond, 0),
    errorRatio: count > 0 ? errors / count : 0,
  };
}

/** `api (10.0.0.5)`, `s3.amazonaws.com (52.94.236.248:443)`, `203.0.113.42`. Not escaped. */
export function nodeText(node: TopologyNode, port: number | null = null): string {
  const address = mainAddress(node.addresses);
  if (node.kind === "host") return `${node.name} (host)`;
  if (address === undefined) return port === null ? node.name : `${node.name}:${port}`;
  if (node.name === address) return addressWithPort(address, port);
  const more = node.addresses.length - 1;
  return `${node.name} (${addressWithPort(address, port)}${more > 0 ? ` +${more}` : ""})`;
}

/** `41 req/s, 0.2% errors, p95 12ms, HTTP`, or without requests `45 conn/min, 3 open, HTTP, confidence 0.7`; `wide` shows both. */
export function edgeText(edge: DrawnEdge, wide: boolean): string {
  const parts = requestParts(edge.requests);
  if (wide || edge.requests === null) {
    const connections = [
      ...(edge.connectionsPerMinute > 0 ? [`${rate(edge.connectionsPerMinute)} conn/min`] : []),
      ...(edge.openConnections > 0 ? [`${grouped(edge.openConnections)} open`] : []),
    ];
    if (connections.length === 0 && (edge.connections > 0 || edge.failures === 0)) connections.push(`${grouped(edge.connections)} seen`);
    parts.push(...connections);
  }
  if (edge.failures > 0) parts.push(`${grouped(edge.failures)} failed`);
  if (edge.ports !== undefined) parts.push(`${grouped(edge.ports)} ports`);
  else parts.push(edge.requests === null ? protocolName(edge.protocol, edge.port) : requestProtocol(edge.requests.protocol));
  if (edge.confidence < sureConfidence) parts.push(`confidence ${edge.confidence}`);
  if (!wide) return parts.join(", ");
  if (edge.bytesPerMinute > 0) parts.push(`${formatBytes(edge.bytesPerMinute)}/min`);
  if (edge.rttUs !== null) parts.push(`rtt ${(edge.rttUs / 1_000).toFixed(edge.rttUs < 10_000 ? 1 : 0)} ms`);
  if (edge.retransmits !== null && edge.retransmits > 0) parts.push(`${grouped(edge.retransmits)} retransmits`);
  return [...parts, ...edge.evidence].join(", ");
}

/** Zero errors are omitted: most edges have none. */
function requestParts(requests: TopologyEdge["requests"]): string[] {
  if (requests === null) return [];
  return [
    `${rate(requests.perSecond)} req/s`,
    ...(requests.errorRatio > 0 ? [`${percent(requests.errorRatio)} errors`] : []),
    ...(requests.p95Us === null ? [] : [`p95 ${latency(requests.p95Us)}`]),
  ];
}

function requestProtocol(protocol: string): string {
  return protocol === "span" ? "from spans" : (protocolTitle(protocol) ?? protocol);
}

/** Both ends were observed, or the address has a name or lies in a provider's range. */
export function isSure(edge: TopologyEdge): boolean {
  return edge.confidence >= sureConfidence;
}

/** Loopback addresses are omitted: they are meaningless on another host. */
function mainAddress(addresses: readonly string[]): string | undefined {
  return addresses.find((address) => !address.startsWith("127.") && address !== "::1") ?? addresses[0];
}
