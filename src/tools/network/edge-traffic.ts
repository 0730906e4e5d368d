import type { EdgeFact } from "../../model/edges.ts";

/** Traffic figures of edges, shared by all answers about the network. */
export interface EdgeTraffic {
  connections: number;
  openConnections: number;
  connectionsPerMinute: number;
  failures: number;
  bytesToServer: number;
  bytesToClient: number;
  bytesPerMinute: number;
  rttUs: number | null;
  retransmits: number | null;
  firstSeenAt: string;
  lastSeenAt: string;
}

type Amounts = Omit<EdgeFact, "class" | "confidence" | "evidence" | "protocol" | "serverPort" | "client" | "server" | "firstBuild">;

/** Sums of edges, at least one. Rates are over `windowMs`, the time that the figures cover. One pass, because a topology can have tens of thousands of edges. */
export function trafficOf(edges: readonly Amounts[], windowMs: number): EdgeTraffic {
  const sum = { connections: 0, open: 0, opened: 0, failures: 0, toServer: 0, toClient: 0, rtt: 0, timed: 0, retransmits: 0 };
  let isCounted = false;
  let firstSeenAt = edges[0]?.firstSeenAt ?? "";
  let lastSeenAt = "";
  for (const edge of edges) {
    sum.connections += edge.connections;
    sum.open += edge.openConnections;
    sum.opened += edge.opened;
    sum.failures += edge.failures;
    sum.toServer += edge.bytesToServer;
    sum.toClient += edge.bytesToClient;
    if (edge.rttUs !== null) {
      const weight = Math.max(1, edge.connections);
      sum.rtt += edge.rttUs * weight;
      sum.timed += weight;
    }
    if (edge.retransmits !== null) {
      isCounted = true;
      sum.retransmits += edge.retransmits;
    }
    if (edge.firstSeenAt < firstSeenAt) firstSeenAt = edge.firstSeenAt;
    if (edge.lastSeenAt > lastSeenAt) lastSeenAt = edge.lastSeenAt;
  }
  const minutes = Math.max(1, windowMs / 60_000);
  return {
    connections: sum.connections,
    openConnections: sum.open,
    connectionsPerMinute: rounded(sum.opened / minutes),
    failures: sum.failures,
    bytesToServer: sum.toServer,
    bytesToClient: sum.toClient,
    bytesPerMinute: rounded((sum.toServer + sum.toClient) / minutes),
    rttUs: sum.timed === 0 ? null : Math.round(sum.rtt / sum.timed),
    retransmits: isCounted ? sum.retransmits : null,
    firstSeenAt,
    lastSeenAt,
  };
}

/** Rounds a rate to three digits. */
function rounded(value: number): number {
  return Number.isFinite(value) ? Number(value.toPrecision(3)) : 0;
}
