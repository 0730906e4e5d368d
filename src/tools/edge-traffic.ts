import type { EdgeFact } from "./schemas/network.ts";

/** The amounts of edges, as every answer about the network carries them. */
export interface EdgeTraffic {
  connections: number;
  openConnections: number;
  connectionsPerMinute: number;
  bytesToServer: number;
  bytesToClient: number;
  bytesPerMinute: number;
  rttUs: number | null;
  retransmits: number | null;
  firstSeenAt: string;
  lastSeenAt: string;
}

type Amounts = Omit<EdgeFact, "class" | "confidence" | "evidence" | "protocol" | "serverPort" | "client" | "server" | "firstBuild">;

/** Sums of edges. Rates are over `windowMs`, the time that the amounts cover. */
export function trafficOf(edges: readonly Amounts[], windowMs: number): EdgeTraffic {
  const sum = (pick: (edge: Amounts) => number): number => edges.reduce((total, edge) => total + pick(edge), 0);
  const timed = edges.filter((edge) => edge.rttUs !== null);
  const timedConnections = timed.reduce((total, edge) => total + Math.max(1, edge.connections), 0);
  const rttSum = timed.reduce((total, edge) => total + (edge.rttUs ?? 0) * Math.max(1, edge.connections), 0);
  const counted = edges.filter((edge) => edge.retransmits !== null);
  const firstSeenAt = edges.reduce((first, edge) => (edge.firstSeenAt < first ? edge.firstSeenAt : first), edges[0]?.firstSeenAt ?? "");
  const lastSeenAt = edges.reduce((last, edge) => (edge.lastSeenAt > last ? edge.lastSeenAt : last), "");
  const bytesToServer = sum((edge) => edge.bytesToServer);
  const bytesToClient = sum((edge) => edge.bytesToClient);
  const minutes = Math.max(1, windowMs / 60_000);
  return {
    connections: sum((edge) => edge.connections),
    openConnections: sum((edge) => edge.openConnections),
    connectionsPerMinute: rounded(sum((edge) => edge.opened) / minutes),
    bytesToServer,
    bytesToClient,
    bytesPerMinute: rounded((bytesToServer + bytesToClient) / minutes),
    rttUs: timed.length === 0 ? null : Math.round(rttSum / timedConnections),
    retransmits: counted.length === 0 ? null : counted.reduce((total, edge) => total + (edge.retransmits ?? 0), 0),
    firstSeenAt,
    lastSeenAt,
  };
}

/** Three digits tell a rate; more would be noise and cost room. */
function rounded(value: number): number {
  return Number.isFinite(value) ? Number(value.toPrecision(3)) : 0;
}
